/** Written by scripts/default-policy.mjs from src/thresher/device/default_policy.json: do not edit. */

import type { Policy } from "./policy.js";
import { unpackRows } from "./policy-table.js";

/** The policy of devices that are given no other. */
export const defaultPolicy = (): Policy => ({
  version: 1,
  max_epsilon: 4,
  max_delta: 0.00001,
  period_epsilon: 20,
  period_delta: 0.0001,
  period_days: 30,
  min_threshold: 5,
  attributes: null,
  pinned_key: null,
  hide_from_contact_list: true,
  coins: "any",
  filters: null,
  max_contributions: 10,
  table: {
    bounds: [4,0.00001,20,0.0001],
    rounds: [1,2,3,4,6,8,10,12,16,24,32,64,100,250,1000],
    rows: unpackRows(
      [5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,22,24,26,28,32,36,40,48,64,96,128,256,512,1024],
      `73plsp -x3nmr -hc7zq -bh6dz -f3f12 -9zox2 -7d392 -5rzd5 -8p4oy -bfu0n -7klg9 -gjtwo -9i5lc -h1nvf -kj1sq
afbzbd -14y63m -lultg -emqd7 -jgsc7 -d19kb -9ot37 -7nitn -bm2gs -fg7s9 -acggs -mzcxa -dgb29 -oq98i -1cw08c
dpp8p4 -1ajl94 -p5xvk -gzomw -msj81 -fe0o1 -biblf -94uw2 -dxshg -ip4jy -cmi7n -sdw17 -gypl8 -18ogkj -2o3a57
gudxib -1ebsfj -rhas4 -io4k3 -p775p -h4cli -cv1ta -a8vgp -fp8ci -l72w2 -eexhc -x9xwy -pq6y3 -2l89zb -3733qv
jrj56r -1gqq2a -t0rdx -jt8qi -qvc4r -icegw -dtxpy -b1tos -gzs9s -n3o6a -fy3fk -1928vm -1harpc -3fpumb -3hykc2
mgmoi0 -1i5ggo -tza9m -kjnz4 -rz2cx -j692v -ei1vj -bm93a -hy1zt -osh1g -ia357 -23fnpq -23c2e4 -3v8k5q -3qpnzd
oxun92 -1itxmt -uic7d -kz4bo -snfku -jpf0v -ey974 -c0umf -iqje2 -r7ru0 -og1pl -34kj9k -2flueo -45kqgb -3yj8fo
r7oe7i -1izi5x -uq2a7 -l6gxk -t0exl -k0u8i -f98wj -ccnrg -jn7mn -w9nn8 -10i6ja -3z94u3 -2nagk9 -4du8sn -45r5ri
tapoli -1irjm2 -upjmc -l7vms -t53hh -k7052 -fhodt -cp9vn -l312x -15qaew -1f0jwb -4kze48 -2svcyg -4l2aak -4cibjb
v7l5qp -1i9z6q -uj2ig -l4yqv -t3vch -ka18h -fq6zo -d6xf8 -nkl48 -1j6y1m -1rxqix -507xrd -2xdysp -4rmwdt -4iva9p
wywmvs -1hlo10 -u8brk -kyxyi -sylfz -kbr6h -g1ffd -dyaf4 -riz44 -1yf3oy -2227wx -5beks3 -31amyf -4xqcpc -4owc44
yl8b4q -1gspmt -tukcl -kqq26 -sqps0 -kdpu3 -ghwm8 -f3r7j -x0p90 -2d8vwl -29popw -5k38b4 -34t09i -53fzce -4umuo4
1032he4 -1fwncs -tepng -kgzpd -shcjx -kh7t3 -h5v5e -gqcue -13pmva -2qgftx -2fiko6 -5r6pse -380x4g -58tupo -50419q
11gvjib -1eyltg -sxgjr -k69f7 -s7chw -knarh -i30wl -iurdw -1b1od8 -31nsvq -2k022v -5x83co -3b0l6q -5dxhgg -55cvvr
12r21x0 -1dzevh -sfbli -jux4u -rxcpp -kwrg0 -jacgx -lf2bo -1ih5ng -3axm62 -2nk1gt -62ir0w -3dtct9 -5is06a -5ae5pv
13xyx9c -1czoge -rwomw -jj98m -rnu71 -la5pf -krx8u -obdwf -1plea7 -3ij581 -2qg7x5 -679kjd -3gg5ty -5ned1k -5f8lxv
16383m7 -1b095q -quz6m -ivrjd -r7h5x -mdsgl -oi448 -ul1dw -221trn -3tuvj4 -2ux5xl -6fjtgu -3lajle -5w1hby -5of6gs
17yrjul -192mpa -ptu9t -i8wbl -qvrfn -ny5lv -swza6 -10q72y -2bshkv -41lgwm -2ya1fq -6mnf6d -3pnrx3 -63zsn4 -5x0dne
19m9e6t -177z7w -ou2ky -hn7sg -qp35b -pwk56 -xkzcy -16733u -2j3vet -471smq -30xtkn -6suxil -3tmpk5 -6bcx8v -65384w
1b31855 -15gtxz -nw25e -h2yjl -qn709 -s4wm9 -12596y -1asob9 -2oia1n -4b0h56 -334dca -6ycoqn -3x9fcl -6i7qpf -6cq0ej
1dkfj3o -129jt2 -m5slb -g2uls -qv6lm -wy7u0 -1a5fzi -1hi31v -2vcm6o -4g7nkr -36hobg -77n0no -43oi0r -6un441 -6qulgu
1fl7jwy -zg9wx -kn0cw -f83sp -rdrc6 -11m7kz -1g8fj7 -1lm3ry -2yxtkw -4j98ks -38xez6 -7f5o5b -496nq7 -75nmfr -73pkyg
1h9kaw0 -wzffc -jawwp -eht8l -s1f1r -15pn62 -1kj4uo -1nzh1p -30p2ao -4l0r8z -3apdh0 -7lb8jz -4dyjkz -7fisin -7fj2sp
1jvsj4c -sw7xe -h34hl -db6qg -tde7z -1br3at -1p7mdz -1pr1jv -31dbo0 -4m9mdy -3cvl45 -7ukqyb -4ltg9y -7wja6f -80o21p
1nc46hv -n2s7s -dwxk5 -bm4uc -v1csy -1gyelb -1qiy2f -1oeuvt -2y78au -4k4b9q -3dx3k9 -855mts -4wvcd8 -8mubzh -8zocrt
1r04evq -ge8qq -a729f -9fr6j -uo0bf -1fhdny -1kkp3h -1htqmv -2nyd7a -49k7j8 -3ab9yy -8a9wsb -58kjt6 -9l87ei -aftndd
1sx5js4 -cp75u -82k6t -7zjy6 -sdj6f -1ag3wq -1dsl0m -1bjhmb -2e33t0 -3xo46a -34at3t -8654q5 -5d83tn -a66iwt -bi02vx
1vwnse5 -6o563 -4fd0z -4xvlf -jnqw3 -uopkq -wdsv6 -vkofp -1nfoww -2wjgk5 -2gw3rw -75udtg -58j9fj -b0aroo -dzjdts
1xg95y4 -3f4qp -2bzsq -2sf95 -bm75k -hpq6c -irxqm -inujs -107r4p -1v8z9g -1osr0u -5fbau3 -4gk1ky -aoklf8 -fwrvq3
1y8iuud -1qcro -17782 -1hka1 -6bio4 -9jdia -a633f -a8h89 -k98hh -130zxz -10vyr7 -3kz2ki -3a3zp1 -930mu8 -gjwaks`,
      `4d.i 7.j f.i 1.m 9.j j.i l.i 3.l d.j 7.k f.j 1.n h.j j.j 5.l b.k 3.m 7.l f.k 1.o h.k j.k 5.m b.l 3.n d.l 7.m f.l h8as9
63.i 1d.i v.j v.j 7.k f.j 1.n h.j 5.l 5.l b.k 3.m 3.m d.k 7.l f.k 1.o 9.l 9.l 5.m b.l 3.n d.l d.l 7.m 1.p 1.p 9.m 5.n n8akp
6j.i 1h.i 1.o 5.m 3.n t.k 9.m 3.m d.k 7.l f.k f.k 1.o 9.l 5.m 5.m b.l b.l 3.n d.l 7.m 7.m f.l 1.p 9.m 9.m 5.n 5.n b.m qq820
j.m h.k 2b.i 2t.i 1p.j 11.k 2h.j r.l n.k 9.l j.k 5.m 5.m l.k n.k 3.n p.k d.l 7.m f.l 1.p h.l h.l 9.m j.l 5.n l.l b.m n.l r1hb7
8h.i 1x.i 2b.i 2t.i v.k 23.j 19.k r.l 1t.k 13.l l.k b.l n.k d.l d.l 7.m 7.m f.l 1.p 1.p h.l 9.m j.l 5.n 5.n b.m b.m n.l d.m tsutf
17.l 25.i 2l.i 1l.j 1x.j 15.k 2t.j 1p.k 21.k 17.l 2b.k d.l d.l 7.m 7.m f.l 1.p 1.p h.l 9.m 9.m j.l 5.n l.l l.l b.m 3.o 3.o d.m ticnc
ah.i 2d.i 1f.j v.k 23.j 19.k 33.j x.l 27.k 2l.k 1j.l h.m 7.m f.l f.l 1.p 1.p h.l h.l 9.m j.l 5.n 5.n b.m b.m 3.o 3.o d.m d.m vbvau
2p.k 2f.i 2x.i 1.p 13.k n.l 1l.k h.m 29.k 3.p 1l.l 1v.l d.m f.l 1.p 1.p h.l 9.m 9.m 5.n 5.n 5.n b.m b.m 3.o 3.o 3.o d.m d.m uqyum
av.i 2f.i 1h.j 1t.j 13.k 2l.j t.l 1x.k 15.l 2p.k 1l.l 1t.l 25.l 9.m 1.p 9.m 9.m 9.m 9.m 5.n 5.n b.m b.m b.m 3.o 3.o 3.o d.m d.m uvava
2x.k 1b.j 1l.j 1x.j l.l 2r.j v.l 21.k 2f.k 2v.k f.n 1x.l 2b.l 9.n 9.m 9.m 9.m 9.m 5.n 5.n 5.n b.m b.m b.m 3.o 3.o 3.o d.m d.m wbioh
bn.i n.k 35.i 1x.j 2b.j p.l f.m 21.k 2f.k 1f.l f.n 1x.l 5.p 2j.l 9.m 9.m 9.m 5.n 5.n 5.n 5.n b.m b.m b.m 3.o 3.o 3.o d.m d.m upmu0
nb.h 57.h 35.i 1x.j 2b.j p.l f.m 9.n 4t.j 1f.l 3b.k 3v.k 5.p 4z.k f.n h.l 9.m 9.m j.l j.l 5.n 5.n l.l l.l b.m b.m n.l 3.o 3.o p.l ucoyi
n9.h n.k 6b.h 3t.i 2b.j 5l.i f.m 41.j 4r.j 1f.l 3b.k 3v.k 4f.k 4z.k 2x.l j.l 9.m 9.m j.l j.l 5.n 5.n l.l l.l b.m b.m n.l n.l 3.o 3.o t93m4
cb.i 1d.j 3b.i 41.i 4v.i 2x.j 3h.j j.m 19.l 2z.k 3h.k 41.k 4j.k 1b.m r.n t.l 9.m 9.m j.l j.l 5.n 5.n l.l l.l l.l b.m n.l n.l n.l 3.o ud4zn
q5.h 5t.h 3j.i 49.i 55.i 33.j 1v.k 5.o 59.j 7.o 1t.l 45.k 2f.l 3.q 31.l 13.l 9.m 9.m j.l j.l j.l 5.n 5.n l.l l.l l.l b.m n.l 3.o 3.o t3ktw
6h.j d.l v.k 49.i 53.i 33.j 3p.j 27.k 59.j 7.o 1t.l 47.k 2d.l 2p.l 2z.l 5.p 9.m 9.m 9.m j.l j.l 5.n 5.n 5.n l.l l.l b.m b.m 3.o 3.o tk6ao
r5.h 5z.h 1t.j 4f.i 5b.i 37.j 3t.j 4l.j 5h.j t.m 3r.k 13.m 4v.k 2r.l 31.l f.o n.l 9.m 9.m 9.m j.l j.l 5.n 5.n 5.n b.m b.m b.m b.m b.m qwllb
sf.h 69.h 1x.j 2b.j p.l f.m 3z.j 17.l 5p.j f.n 3v.k 4h.k 19.m 2t.l 7.p f.o 1j.l h.l 9.m 9.m 9.m 5.n 5.n 5.n 5.n 5.n 5.n b.m b.m b.m r0shp
gx.i 1v.j 4j.i 1d.k 1n.k z.l l.m 5l.j 1n.l 1x.l 27.l 4x.k 2t.l 33.l 1n.m v.n 9.m 9.m 9.m 9.m 9.m 9.m 5.n 5.n 5.n 5.n 5.n 5.n b.m ql2j9
3p.k 1n.j 3z.i 4t.i d.m 1r.k 45.j 2h.k 1h.l v.m 9.o 2b.l 2l.l 2x.l 7.p f.o 1t.m b.m 9.m 9.m 9.m 9.m 9.m 9.m 9.m 5.n 5.n 5.n 5.n 5.n of4vt
yv.h 7l.h 4n.i 5l.i f.m 81.i 2d.k bf.i 6p.j 3v.k 8z.j 53.k 5n.k 67.k 1n.m 6v.k 3l.l j.l 1.p 1.p 1.p h.l h.l h.l h.l h.l 9.m 9.m 9.m 9.m mo584
4t.k 47.i 2j.j 65.i x.l 8n.i ah.i 65.j 79.j 23.l 9j.j 3.q 5x.k 6f.k 6r.k 6x.k 3n.l r.l f.l f.l f.l 1.p 1.p 1.p 1.p 1.p h.l h.l h.l h.l kj7o2
ah.j 93.h b1.h 6n.i 3z.j 2d.k b5.i 6n.j 1x.l 4f.k 51.k 2r.l 6b.k 1n.m v.n 3h.l 3l.l z.l 7.m 7.m 7.m f.l f.l f.l f.l f.l f.l 1.p 1.p 1.p jpg68
lf.i l.l 5n.i 6r.i 85.i 2f.k 5p.j 6p.j 7t.j 29.l 55.k 5p.k 65.k 6r.k 3h.l 1r.m 1p.m 3d.l d.l d.l d.l d.l d.l d.l d.l d.l 7.m 7.m 7.m 7.m hsl3g
b9.j 4x.i bv.h e3.h gz.h k5.h bv.i 3h.k g7.i l.n aj.j 5v.k 1l.m 1p.m dx.j 1r.m 3f.l 6b.k 63.k n.k 5.m l.k l.k l.k l.k l.k l.k b.l b.l b.l b.l digo3
uf.i 6j.i 7t.i ip.h m3.h 39.k 7h.j 8r.j k3.i 5l.k 65.k 3b.l 6x.k 6z.k 71.k 6n.k 1j.m 2p.l 2h.l 7.m f.k f.k f.k f.k f.k f.k f.k 1.o 1.o 1.o 1.o a1pau
45j.g 3x.j 11n.g 5l.j q7.h f1.i 4h.k 19.m mh.i cd.j ql.i r5.i e9.j e1.j 6n.k c7.j 5f.k 2b.l 45.k 7.m 3.m n.j 3.m 3.m 3.m 3.m 3.m 3.m 3.m 3.m 3.m 7lht0
5gd.g 14t.g 61.j s1.h 43.k ip.i kv.i 1bj.h pj.i 1id.h s5.i e5.j 1p.m q1.i bn.j a9.j hf.i ej.i bj.i 4x.j 17.j p.i p.i p.i p.i p.i p.i p.i p.i p.i p.i p.i 3z919
7qx.g 1jp.g 3k7.f 437.f 2bp.g n9.i ox.i 6t.k 1kn.h 1kb.h 1jd.h 6j.k n7.i aj.j 29.l tz.h nz.h j9.h 1v.k 2x.j z.k d.i d.i d.i d.i d.i d.i d.i d.i d.i d.i d.i 1zcd8
ksf.f 7tj.e 8tv.e 4z9.f 5hn.f 2xv.g 1ix.h 36d.g 33x.g 2z9.g 2qd.g 17z.h 247.g 1ql.g 1h7.g kt.h x1.g pn.g jl.g et.g 5t.h 55.g d.h d.h d.h d.h d.h d.h d.h d.h d.h d.h d.h 10xwl`,
      `1bg 60 1t 2o 48 68 9g 1k 2e 3n 5i 88 4j 1w 2s 48 6e 92 1l 2f 3m 5m 8b 48 1y 2y 4f 6l 86
19o 7g 1n 1y 17 42 63 93 25 27 3g 5d 7l 5m 1r 2o 3z 6d 8z 1z 27 3f 5d 7l 5r 1v 2n 49 6r 8u
182 8u 1f 28 3a 4w 7j 2v 3r 21 36 4j 6u 7s 1s 2m 46 5z 9c 25 2b 3a 51 7o 62 1t 2w 45 6i 8y
1fo 2d 21 31 4j 6s 7o 1j r 1w 3u 5w 8g 3f 20 30 4h 6o 83 1m 2g 3u 5i 8d 3z 1x 2v 4c 6g 8h
1c1 5h 1q 2m 3z 5x 8t 2g 1z 2y x 4y 7h 69 1t 2v 45 6h 95 1h 28 3g 5b 85 52 1w 2p 43 6q 8v
1ep 37 1x 2x 4d 6f 8g 1h 27 39 3v 1p 7y 59 1t 2v 4h 6k 8n 1l 2b 3j 5e 8a 4l 1u 2w 47 6n 8m
1gh 1p 22 34 4o 6w 7a 1k 2c 3h 56 3u 3c 5o 1s 2t 44 6b 97 1h 26 3c 4w 7u 60 1u 2r 4d 6g 8z
1f8 2r 1z 2z 4i 6k 82 1i 28 3c 50 7h 3f 2a 1q 2h 3w 61 8w 2u 27 37 57 7p 65 1v 2r 4e 6h 8t
1d7 4g 1u 2s 44 63 9d 1e 23 33 4l 6n 7i a 1h 2p 41 5y 8o 2w 23 3h 56 7n 63 1u 2r 4d 6g 8w
1en 39 1y 2w 4e 6e 8h 1g 27 3a 4s 71 6l k u 2j 3s 5k 96 39 21 3c 50 7e 6p 1s 2o 4a 6d 9b
1ck 4z 1s 2o 3z 5y 8u 2b 20 2y 4f 6f 85 1f c 2c 3n 62 96 33 21 3c 4z 7f 6o 1t 2p 4d 6i 91
1ax 6e 1n 2i 3p 5j 88 3u 1v 2q 41 60 8u 1u 13 l 2y 4c 6s 89 1k 2b 3j 59 82 4w 1u 2t 46 6d 92
19d 7p 1k 2a 3g 56 7n 5c 1p 2k 3r 5l 86 3i 1v e 2q 4d 6t 85 1l 2b 3m 5c 89 4k 1w 2s 4a 6a 8x
1af 6t 1m 2f 3m 5d 7y 4h 1s 2o 3y 5u 8f 2n 1x m 1u 47 6k 8v 1j 29 3j 58 7r 5d 1v 2r 42 69 9c
1bs 5o 1q 2k 3u 5p 8l 31 1w 2u 45 63 90 1b 20 v 1e 48 6o 8o 1h 2a 3d 58 7r 5g 1s 2q 4a 6e 96
1a4 73 1k 2f 3j 5c 7z 4l 1s 2n 3w 5s 8d 2u 1t 1r o 45 65 9g 1f 28 3b 4w 7l 65 1r 2l 49 6f 9f
19x 78 1k 2d 3h 58 7r 51 1r 2l 3u 5o 87 38 1s 2n m 3d 68 97 1n 25 3d 52 7i 67 1w 2u 49 6b 91
19v 7a 1l 2c 3i 58 7r 50 1r 2k 3t 5n 85 3c 1s 2k 1i 19 5r 8l 3n 25 3b 50 7j 6j 1p 2s 48 6e 9e
1ga 1u 22 32 4l 6s 7i 1j 29 3d 4x 74 62 1k 28 38 l 5n 8w 3h 20 2z 50 7n 6u 1r 2n 3x 6k 9l
185 8r 1g 26 38 4v 75 6j 1m 2d 3i 57 7j 51 1l 2c 3i q 4q 93 3j 24 36 4r 72 7a 1u 2s 48 6e 99
1c7 5a 1r 2l 3u 5s 8g 31 1w 2s 46 62 8u 1g 1u 2o 3x q 5c 9b 1f 2a 3g 57 7s 5j 1u 2s 46 68 9b
1e0 3r 1v 2t 45 64 95 1d 22 2z 4f 6f 7x 1d 1y 2s 47 13 3n 98 1y 28 3d 53 7o 5y 1v 2s 49 6d 95
1fo 2c 20 2z 4f 6l 80 1h 25 36 4o 6n 73 1e 22 2w 4c 1i 2p 96 1x 28 3c 53 7n 61 1q 2r 47 6c 9e
1c2 5f 1q 2k 3v 5p 8g 33 1v 2r 42 5v 8e 27 1r 2i 3i 57 q 9f 24 26 39 4w 7c 6i 1s 2q 44 69 9n
17x 8y 1f 23 36 4o 6x 71 1j 29 3a 4t 6w 6b 1f 21 2v 3w 5v t 7u 1j 2a 3f 56 7q 5h 1u 2r 46 6b 99
1c8 5a 1q 2l 3t 5o 89 3a 1u 2n 3v 5l 7z 30 1n 28 34 49 6b 1d 58 1f 26 39 4v 7a 6i 1s 2p 44 6a 9n
1fm 2d 1z 2x 4b 6a 8h 1d 21 2y 49 5x 8f 18 1p 2d 39 4e 6k 1q 3u 1f 29 3f 57 7v 5i 1t 2q 44 67 9g
1cf 54 1q 2j 3s 5j 80 3n 1p 2h 3j 50 6x 50 1c 1v 2j 3h 4l 6v 2g 1k 1j 2b 3h 59 7y 53 1t 2q 43 65 9h
1dt 3x 1s 2n 3w 5n 81 33 1p 2d 3e 4p 6b 5x 18 1o 28 33 43 5o 6h b 1h 29 3f 57 7v 5g 1u 2q 46 6b 99
1cr 4s 1o 2h 3l 55 7b 4r 1h 23 2v 3z 5g 78 27 1c 1v 2i 3d 4j 6f 45 6 1j 2b 3h 58 7x 54 1t 2p 44 66 9g`,
    ),
  },
});
