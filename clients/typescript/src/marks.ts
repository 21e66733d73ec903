/** Written by scripts/marks.mjs from docs/protocol/vectors/marks.json: do not edit. */

/**
 * The combining marks of the protocol, as ranges of code points in base 36: how far the first is behind the last of
 * the range before, and, after a point, how many more there are.
 */
export const MARKS =
  "lc.26 2.v 7o.4 7e.18 2 2.1 2.1 2 21.a 1d.k h 2u.6 3.5 3.1 2.3 10 v.q 4h.8 a p.3 2.8 2.2 2.4 18.2 1o.8 " +
  "17.n 2.s 1p h 4.3 2w h 1d 1q h 33 h 33 h 3k 33 h 8.1 2u h 32.1 h 3h 32.2 e.3 31.2 e.3 25.1 s 2 2 1k.4 " +
  "5.3 3.4 2.1 1r 35 2.1 2b k0.2 qd.1 v 4e b 5o 40.2 64.1 20 l.7 3 1d.d 2.u 3.b 21 g 13.8 1j.1 1n c.1 1w " +
  "49.2 2.c 2.6 5 7 4.1 5j.1r k1.c 5 4.b 2db.2 3y 2p.v ff.5 2y.1 n9x 5.9 x.1 29.1 7p 12 48 s.h 1m.2 12 2o " +
  "d 6o 2.2 3.1 6.1 2 1h 6v fn5 le.f r2 6b 46.4 1ar 2 15.2 5 4m.1 fy.3 1u.4 8u.1 26.1 2.2 1z.a 1e.3 5d 16 " +
  "f 1m.1 1y.2 1d.1 1r 25 a 2z.1 4z.1 29.1 h p.6 4.4 2i.2 36 4 o 2s.1 70.1 3j 3b.1 38 7i.1 77.1 5 4d 2c " +
  "j 2a bq 77 2.1 2a bu.1 d0t 1xd.4 1o.6 xm.1 f59 43r.4 4.5 9.7 3.6 v.3 45.2 2po.6 2.g 3.6 2.1 2.4 2t 4h.6 " +
  "ag 1q.3 e5.3 73.1 6s 3 8.1 6 d7.6 32.6";
