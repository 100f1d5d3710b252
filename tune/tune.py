"""nvcc builds tune.so; this times all variants on the four graphs and prints one table for each."""
import ctypes, statistics, sys, time
import torch
here = __file__.rsplit("/", 1)[0]
lib = ctypes.CDLL(here + "/tune.so")
P = ctypes.c_void_p
class Args(ctypes.Structure):
    _fields_ = [(n, P) for n in "row_starts columns values selectors gradient result workspace places t_starts products".split()] + [(n, ctypes.c_longlong) for n in "rows nodes edges".split()] + [(n, ctypes.c_int) for n in "cols k piece_shift rows_per_worker".split()] + [("stream", P)]
SHAPES = {"flickr": (89_250, 899_756, 1.9), "yelp": (716_847, 13_954_819, 1.35), "reddit": (232_965, 114_615_892, 1.0), "products": (2_449_029, 123_718_280, 1.4)}
M, K = 256, 32
flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
def graph(n, e, spread):
    g = torch.Generator("cuda").manual_seed(97)
    def shares():
        t = (torch.randn(n, generator=g, device="cuda", dtype=torch.float64) * spread).exp().cumsum(0); return t / t[-1]
    rs = torch.zeros(n + 1, dtype=torch.int32, device="cuda"); rs[1:] = (shares() * e).round().to(torch.int32); rs[-1] = e
    pop = shares(); cols = torch.empty(e, dtype=torch.int32, device="cuda")
    for part in cols.split(1 << 25): part.copy_(torch.searchsorted(pop, torch.rand(len(part), generator=g, device="cuda", dtype=torch.float64)).clamp_(max=n - 1))
    order = torch.sort(cols, stable=True); rows = torch.repeat_interleave(torch.arange(n, device="cuda", dtype=torch.int32), rs.diff())
    tc = rows[order.indices]; ts = torch.zeros(n + 1, dtype=torch.int32, device="cuda"); ts[1:] = torch.bincount(cols, minlength=n).cumsum(0)
    places = torch.empty(e, dtype=torch.int32, device="cuda"); places[order.indices] = torch.arange(e, dtype=torch.int32, device="cuda")
    return rs, cols, ts, tc, places
def time_ms(f, reps=5):
    out = []
    for i in range(reps + 1):
        flush.zero_(); a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2)); a.record(); f(); b.record(); torch.cuda.synchronize()
        if i: out.append(a.elapsed_time(b))
    return statistics.median(out)
def check(name, ours, rs, cols, f):
    deg = rs.diff()
    for r in [int(deg.argmax()), *torch.randint(len(deg), (20,), device="cuda").tolist()]:
        c = cols[rs[r]:rs[r + 1]].long(); e, m = f(r, c)
        if not ((ours[r].double() - e).abs() <= (len(c) + 3) * 2.0**-24 * m + 1e-30).all(): print("WRONG", name, "row", r, "degree", len(c)); return False
    return True
for name, (n, e, spread) in SHAPES.items():
    if len(sys.argv) > 1 and name not in sys.argv[1:]: continue
    t0 = time.time(); rs, cols, ts, tc, places = graph(n, e, spread); products = torch.empty(e, K, device="cuda")
    x = torch.randn(n, M, device="cuda"); v, i = torch.topk(x, K); i, o = i.sort(1); v = v.gather(1, o).contiguous(); s = i.to(torch.uint8).contiguous(); x.zero_().scatter_(1, i, v); del i, o
    dy = torch.randn(n, M, device="cuda"); y = torch.empty(n, M, device="cuda"); dx = torch.empty(n, K, device="cuda")
    ones = torch.ones(e, device="cuda"); A = torch.sparse_csr_tensor(rs, cols, ones, (n, n)); At = torch.sparse_csr_tensor(ts, tc, ones, (n, n))
    base_f, base_b = time_ms(lambda: A @ x), time_ms(lambda: At @ dy)
    del A, At, ones
    ws = torch.empty((e // 64 + 1) * (M * 4 + 8) + 4096, dtype=torch.uint8, device="cuda")
    print(f"== {name}: max degree {int(rs.diff().max())}/{int(ts.diff().max())}, cusparse forward {base_f:.3f} backward {base_b:.3f} ms; made in {time.time() - t0:.1f} s", flush=True)
    stream = torch.cuda.current_stream().cuda_stream
    def call(variant, piece, rpw):
        gather = variant == 100; out = y if variant < 100 else dx
        a = Args(*(t.data_ptr() for t in ((ts, tc) if gather else (rs, cols))), v.data_ptr(), s.data_ptr(), dy.data_ptr(), out.data_ptr(), ws.data_ptr(), places.data_ptr(), ts.data_ptr(), products.data_ptr(), n, n, e, M, K, piece.bit_length() - 1, rpw, stream)
        def f():
            r = lib.tune(variant, ctypes.byref(a))
            if r: print("ERROR", variant, r); sys.exit(1)
        return f, out
    def expect_f(r, c):
        d = x[c].double(); return d.sum(0), d.abs().sum(0)
    def expect_b(r, c):
        d = dy[c][:, s[r].long()].double(); return d.sum(0), d.abs().sum(0)
    for kind, variants, base in (("forward", (4, 52, 10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24), base_f), ("gather", (100, 110), base_b), ("scatter", (200, 210, 211, 212, 213, 214, 215), base_b)):
        for variant in variants:
            cells = {}; ok = True
            for piece in (64, 128, 256, 512, 1024):
                for rpw in (1, 2, 4, 8, 16, 32) if variant not in (4, 52, 100, 200) else (1, 4):
                    f, out = call(variant, piece, rpw)
                    first = not cells
                    if first: out.fill_(7.0)
                    f()
                    if piece in (64, 256) and rpw in (1, 8): ok &= check(f"{kind} {variant}", out, *((rs, cols, expect_f) if kind == "forward" else (ts, tc, expect_b)))
                    cells[piece, rpw] = time_ms(f, 3)
            best = min(cells, key=cells.get)
            print(f"  {kind:8}{variant:4} best {base / cells[best]:5.2f}x {cells[best]:7.3f} at {best} | " + " | ".join(" ".join(f"{cells[q]:.3f}" for q in cells if q[0] == piece) for piece in (64, 128, 256, 512, 1024)) + ("" if ok else " WRONG"), flush=True)
    print("  columns: pieces of 64, 128, 256, 512, 1024, each with 1 2 4 8 16 32 rows per warp (4, 52, 100, 200: 1 4)")
    del x, v, s, dy, y, dx, ws, rs, cols, ts, tc, places, products; torch.cuda.empty_cache()
