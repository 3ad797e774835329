"""Forward and backward over blocks of steps: the kernels behind posteriors and expected counts.

With beta_t[x, r] = p(o_t+1 ... o_T | x_t = x, r steps remain), scaled so that alpha_t · beta_t = 1,

    beta_t[x, r + 1] = b(x) beta_t+1[x, r]
    beta_t[y, 1]     = Σ_x A[y, x] b(x) Σ_r D[x, r] beta_t+1[x, r],      beta_T = 1 / p(o_1 ... o_T)

where b(x) = p(o_t+1 | x). That beta_T does not depend on r is what makes the last stay
right-censored; with ends, beta_T[x, 1] = end[x] / p(o_1 ... o_T, the end) and the rest is zero. A
stay in its tail looks ahead both ways:

    beta_t[x, n_d] = b(x) (tail[x] beta_t+1[x, n_d] + (1 - tail[x]) beta_t+1[x, n_d - 1]).

As in `lanes`, the product of emissions that all stays in x share is kept apart. What a stay in x
that ends at step q is worth, G_q[x] = E_q[x] beta_q[x, 1], then does not change from step to step,
and a step reads the n = n_d - 1 rows of G ahead of it and adds one; V_t = E_t beta_t[., n_d]:

    H_t[x]   = Σ_j<n D[x, j] G_t+j[x] + D[x, n] V_t[x],         w_t = H_t / E_t-1
    G_t-1[y] = E_t-1[y] Σ_x A[y, x] w_t[x]
    V_t-1[x] = tail[x] V_t[x] + (1 - tail[x]) G_t+n-1[x].

Expected counts are products of the two passes: f_t G_t+j are the durations of stays that begin at
t, out_t-1[y] A[y, x] w_t[x] the transitions, and p(x_t = x) changes from step to step by what
enters and what leaves, f_t H_t and out_t-1 A w_t. It is known at the last step, and zero again
wherever the state is impossible or has less than 1e-14, which is all that rounding leaves there.

The forward pass is kept for a block of steps at a time. Sequences longer than a block keep only the
head of each block, and compute each block again before its backward sweep, so memory does not grow
with the length of a sequence beyond a few tens of megabytes.
"""

from __future__ import annotations

from numba import njit

from sojourn.exact.lanes import (
    CEILING,
    INLINE,
    INNER,
    KERNEL,
    U,
    add_up,
    forward_steps,
    log_of,
    mixed,
    move,
    multiply_rows,
    row_sum,
    set_group,
    two_row_sums,
)
from sojourn.exact.layout import EVERY
from sojourn.exact.vectors import (
    WIDTH,
    compact,
    entry,
    fma,
    least,
    load,
    of_state,
    splat,
    store,
    where_above,
)

# A posterior is the rest of what enters a state and leaves it: below this it is rounding, and zero.
_TINY = 1e-14


@njit(**INLINE)
def add_at(sums, at, a, b) -> None:  # type: ignore[no-untyped-def]
    """Add a b to the eight sums from a place on."""
    store(sums, at, fma(a, b, load(sums, at)))


@njit(**INNER)
def _begin_lanes(model, group, steps, row, t, sweep, counts, end) -> None:  # type: ignore[no-untyped-def]
    """Set G and V in the lanes whose last step is t."""
    G, V, n, W = sweep.G, sweep.rows, model.n, sweep.p.size
    N = max(model.pad.size, model.n_x * W)
    start, E, out = sweep.at[0] * N, row + 2 * N, row + 4 * N
    for l in range(W):
        if group.lengths[l] != t + 1 or sweep.p[l] <= 0.0:
            continue
        for x in range(model.n_x):
            i = x * W + l
            value = steps.rows[E + i] / sweep.p[l]
            if model.stop.size > 0:
                counts[end + i] += steps.rows[out + i] / sweep.p[l] * model.stop[x]
                if n > 0:
                    G[start + i] = value * model.stop[x]
                else:
                    V[i] = value * model.stop[x]
            else:
                V[i] = value
                for j in range(n):
                    G[start + j * N + i] = value


@njit(**INNER)
def _unsettle(model, steps, row, sweep) -> None:  # type: ignore[no-untyped-def]
    """G and V as they were before lanes were settled."""
    rows, kept, W = sweep.rows, steps.rows, sweep.p.size
    N = max(model.pad.size, model.n_x * W)
    factor, b, E = 2 * N, 5 * N * row + N, 5 * N * (row - 1) + 2 * N
    for i in range(N):
        rows[factor + i] = 1.0
    for l in range(W):
        if steps.flag[row, l]:
            for i in range(l, N, W):
                rows[factor + i] = kept[E + i] * steps.scale[row, l] * kept[b + i]
    multiply_rows(rows, 0, 1, rows, factor, N)
    multiply_rows(rows, 3 * N, 1, rows, factor, N)
    multiply_rows(sweep.G, sweep.at[0] * N, model.n, rows, factor, N)


@njit(**INLINE)
def _add_states(codes, group, t, kept, b, N, n_x, rows, post, sums) -> None:  # type: ignore[no-untyped-def]
    """Add the posteriors of step t to the emissions, and write them if they are wanted."""
    begins, lengths = group
    W, zero, emission, gamma = lengths.size, splat(0.0), sums.emission, sums.gamma
    for h in range(0, N, WIDTH):
        v = load(rows, post + h)
        v = where_above(v, splat(_TINY), v)
        store(rows, post + h, where_above(load(kept, b + h), zero, v))
    for l in range(W):
        if t >= lengths[l]:
            continue
        at = begins[l] + t
        code = U(codes[at] if codes[at] >= 0 else emission.shape[0] - 1)
        for x in range(U(n_x)):
            emission[code, x] += rows[U(post) + x * U(W) + U(l)]
        if gamma.size > 0:
            everything = 0.0
            for x in range(n_x):
                everything += rows[post + x * W + l]
            share = 1.0 / everything if everything > 0.0 else 0.0
            for x in range(n_x):
                gamma[at, x] = rows[post + x * W + l] * share


@njit(**INLINE)
def _look_ahead(model, sweep, t, kept, f, counts, duration, N, W) -> None:  # type: ignore[no-untyped-def]
    """Durations below n_d of the stays that begin at t: their part of H, and their counts.

    Two steps share one reading of the rows, where G is not rescaled between them: the sums of an
    even step are made with those of the odd one after it, and the counts of an odd one wait.
    """
    G, rows, at, D, n, P = sweep.G, sweep.rows, sweep.at, model.D, model.n, model.pad.size
    H, ahead, waiting = 2 * N, 3 * N, 4 * N
    start, even, wide = at[0] * N, n + n % 2, model.wide
    for q in range(0, model.n_x, WIDTH if W == 1 else 1):
        for h in range(q * W, q * W + max(W, WIDTH), WIDTH):
            here = load(kept, f + h)
            if t % 2:
                s = two_row_sums(D, q, P, G, start + h, even, N, wide, rows, ahead + h)
                store(rows, H + h, s)
                store(rows, waiting + h, here)
                continue
            if at[1]:
                s = load(rows, ahead + h)
            else:
                s = row_sum(D, q + P, P, G, start + N + h, even, N, wide)
            g = load(G, start + h)
            store(rows, H + h, fma(entry(D, q, wide), g, s))
            late = load(rows, waiting + h) if at[2] else splat(0.0)
            for j in range(h, n * N, N):
                compact()
                s = fma(here, g, load(counts, duration + j))
                g = load(G, start + j + N)
                store(counts, duration + j, fma(late, g, s))
    at[1] = at[2] = t % 2


@njit(**INNER, inline="always")
def _sweep(model, evidence, group, steps, first, last, sweep, sums) -> None:  # type: ignore[no-untyped-def]
    """Backward over steps first to last - 1, adding up what is expected to happen there."""
    G, rows, _, at, _ = sweep
    kept, counts, lengths = steps.rows, sums.counts, group.lengths
    _, _, AT, _, _, last_D, _, pad, _, n_x, n, wide = model
    W, P = lengths.size, pad.size
    N = max(P, n_x * W)
    V, post, H, waiting, w = 0, N, 2 * N, 4 * N, 5 * N
    duration, entered, transition = (n + 1) * N, (2 * n + 1) * N, (2 * n + 2) * N
    held = transition + n_x * N
    stride, width = (WIDTH if W == 1 else 1), max(W, WIDTH)
    for t in range(last - 1, first - 1, -1):
        f, start = (t - first + 1) * 5 * N, at[0] * N
        E, top, out = f - 3 * N, f - 2 * N, f - N  # of the step before
        begins_here = False
        if t + 1 >= lengths[W - 1]:
            for l in range(W):
                begins_here = begins_here or lengths[l] == t + 1
        settles = steps.settled[t - first + 1]
        if at[2] and (begins_here or settles or t == 0):
            for h in range(0, N, WIDTH):
                late = load(rows, waiting + h)
                for j in range(h, n * N, N):
                    add_at(counts, duration + j, late, load(G, start + N + j))
            at[2] = 0
        if begins_here:
            at[1] = 0
            _begin_lanes(model, group, steps, f, t, sweep, counts, held + 2 * N)
        _add_states(evidence.rows, group, t, kept, f + N, N, n_x, rows, post, sums)
        if settles:
            _unsettle(model, steps, t - first + 1, sweep)
        if t == 0:
            for h in range(0, N, WIDTH):
                add_at(counts, n * N + h, splat(1.0), load(rows, V + h))
                for j in range(h, n * N, N):
                    add_at(counts, j, splat(1.0), load(G, start + j))
            break
        if n > 0:
            _look_ahead(model, sweep, t, kept, f, counts, duration, N, W)
        for q in range(0, n_x, stride):
            for h in range(q * W, q * W + width, WIDTH):
                v, here = load(rows, V + h), load(kept, f + h)
                s = entry(last_D, q, wide) * v
                if n > 0:
                    s = s + load(rows, H + h)
                add_at(counts, entered + h, here, v)
                store(rows, post + h, load(rows, post + h) - here * s)
                store(rows, w + h, least(s / load(kept, E + h), splat(CEILING)))
        end = start + max(n - 1, 0) * N
        if at[0] == 0:
            move(G, n, N)
            at[0] = EVERY
            end += EVERY * N
        at[0] -= 1
        start = at[0] * N
        for y in range(n_x):  # its row from end to end: rows of even sizes share lines of the cache
            for l in range(0, width, WIDTH):
                came = of_state(kept, out + y * W + l, wide)
                for h in range(l, n_x * W, width):
                    compact()
                    add_at(counts, transition + y * N + h, came, load(rows, w + h))
        for q in range(0, n_x, stride):
            for l in range(0, width, WIDTH):
                h = q * W + l
                leave = mixed(AT, q, P, n_x, rows, w + l, W, wide)
                add_at(rows, post + h, load(kept, out + h), leave)
                leave = least(load(kept, E + h) * leave, splat(CEILING))
                v, above = load(rows, V + h), load(kept, top + h)
                add_at(counts, held + h, above, v)
                g = leave
                if n > 0:
                    g = load(G, end + h)
                    add_at(counts, held + N + h, above, g)
                    g = entry(last_D, 2 * P + q, wide) * g
                store(rows, V + h, fma(entry(last_D, P + q, wide), v, g))
                store(G, start + h, leave)


@njit(**INNER)
def _finish_lanes(model, group, forward, t, order, k, sweep, log_probs) -> None:  # type: ignore[no-untyped-def]
    """The probabilities of the sequences whose last step is t, and of their states there."""
    rows, W, n_x = forward.rows, sweep.p.size, model.n_x
    N = max(model.pad.size, n_x * W)
    E, out, sums = 2 * N, 4 * N, 6 * N
    add_up(model, forward)
    for l in range(W):
        if group.lengths[l] != t + 1:
            continue
        p = forward.total[l]
        if model.stop.size > 0:
            p = 0.0
            for x in range(n_x):
                p += rows[out + x * W + l] * model.stop[x]
        sweep.p[l] = p
        log_probs[order[k + l]] = log_of(p, forward.shifts[l])
        share = 1.0 / p if p > 0.0 else 0.0
        for x in range(n_x):
            i = x * W + l
            here = rows[E + i] * rows[sums + i]
            if model.stop.size > 0:
                here = rows[out + i] * model.stop[x]
            sweep.rows[N + i] = here * share


@njit(**INNER)
def _keep_head(forward, steps, head, save, N) -> None:  # type: ignore[no-untyped-def]
    """Save the state of the forward pass before a block, or bring it back; it is row 0, too."""
    recent, down, rows, at = forward.recent, forward.down, forward.rows, forward.at
    if save:
        head[2, 7 * N] = at[0]
        for i in range(recent.size):
            head[0, i], head[1, i] = recent[i], down[i]
        for i in range(7 * N):
            head[2, i] = rows[i]
    else:
        at[0] = int(head[2, 7 * N])
        for i in range(recent.size):
            recent[i], down[i] = head[0, i], head[1, i]
        for i in range(7 * N):
            rows[i] = head[2, i]
    for i in range(5 * N):
        steps.rows[i] = rows[i]


@njit(**KERNEL)
def run_chunk(model, evidence, order, group, forward, steps, sweep, sums):  # type: ignore[no-untyped-def]
    """Log-probabilities of some sequences, the longest first, W at a time, and the other sums.

    Forward over blocks of steps, then backward over them; without room for steps, forward only.
    """
    W, wanted = group.lengths.size, steps.rows.size > 0
    N = max(model.pad.size, model.n_x * W)
    for k in range(0, order.size, W):
        n = set_group(evidence, order, k, group)
        for l in range(W):
            forward.shifts[l], sweep.p[l] = 0, 0.0
            if group.lengths[l] == 0 and l < n:
                sums.log_probs[order[k + l]] = log_of(model.empty, 0)
        for i in range(2 * N):  # V and the posteriors
            sweep.rows[i] = 0.0
        for i in range(sweep.G.size):
            sweep.G[i] = 0.0
        sweep.at[0], sweep.at[1], sweep.at[2] = EVERY, 0, 0
        T, alive = group.lengths[0], n
        size = steps.settled.size - 1 if wanted else max(T, 1)
        n_blocks = (T + size - 1) // size
        for visit in range(2 * n_blocks if wanted else n_blocks):
            again = visit >= n_blocks
            m = 2 * n_blocks - 1 - visit if again else visit
            t, last = m * size, min((m + 1) * size, T)
            if m > 0 and (not again or m < n_blocks - 1):
                _keep_head(forward, steps, sweep.heads[m], not again, N)
            elif m == 0 and wanted:
                for i in range(2 * N, 3 * N):  # E
                    steps.rows[i] = 1.0
            while t < last and visit != n_blocks:  # the last block is still there
                end = last
                if not again:
                    while alive > 0 and group.lengths[alive - 1] <= t:
                        alive -= 1
                    end = min(last, group.lengths[alive - 1])  # of the shortest that is left
                forward_steps(model, evidence, group, forward, steps, m * size - 1, t, end)
                t = end
                if not again and group.lengths[alive - 1] == t:
                    _finish_lanes(model, group, forward, t - 1, order, k, sweep, sums.log_probs)
            if again:
                _sweep(model, evidence, group, steps, m * size, last, sweep, sums)
