"""What a person does on the page, in either browser."""

from __future__ import annotations

from browsers import wait_for

SWITCH = "() => { document.querySelector('#consent').click(); }"
READY = "() => !document.querySelector('#consent').disabled"
ANSWERED = "() => document.querySelectorAll('.badge-taken').length"


def opened(profile, url):
    tab = profile.tab()
    tab.goto(url)
    wait_for(tab, READY)
    return tab


def switched_on(profile, fleet):
    tab = opened(profile, fleet.page)
    tab.evaluate(SWITCH)
    return tab
