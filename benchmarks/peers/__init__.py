"""Thresher beside other differential-privacy libraries, on the same rows."""
