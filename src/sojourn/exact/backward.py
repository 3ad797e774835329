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
    ending_in,
    entry,
    forward_steps,
    log_of,
    mixed,
    move,
    multiply_rows,
    of_state,
    row_sum,
    set_group,
    two_row_sums,
)
from sojourn.exact.layout import EVERY
from sojourn.exact.vectors import WIDTH, fma, least, load, splat, store, where_above

# A posterior is the rest of what enters a state and leaves it: below this it is rounding, and zero.
_TINY = 1e-14


@njit(**INLINE)
def add_at(sums, at, a, b) -> None:  # type: ignore[no-untyped-def]
    """Add a b to the eight sums from a place on."""
    store(sums, at, fma(a, b, load(sums, at)))


@njit(**INNER)
def _add_durations(duration, n, factors, G, start) -> None:  # type: ignore[no-untyped-def]
    """Add the factors, times rows of G from the start on, to the first n rows."""
    N = duration.shape[1]
    for h in range(0, N, WIDTH):
        v = load(factors, h)
        for j in range(h, n * N, N):
            add_at(duration, j, v, load(G, start + j))


@njit(**INNER)
def _begin_lanes(model, group, steps, row, t, sweep, sums) -> None:  # type: ignore[no-untyped-def]
    """Set G and V in the lanes whose last step is t."""
    G, V, n = sweep.G, sweep.V, model.n
    N, W = V.size, sweep.p.size
    start = sweep.at[0] * N
    for l in range(W):
        if group.lengths[l] != t + 1 or sweep.p[l] <= 0.0:
            continue
        for x in range(model.n_x):
            i = x * W + l
            value = steps.E[row, i] / sweep.p[l]
            if model.stop.size > 0:
                sums.end[i] += steps.out[row, i] / sweep.p[l] * model.stop[x]
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
    factor = sweep.H
    N, W = factor.size, sweep.p.size
    for i in range(N):
        factor[i] = 1.0
    for l in range(W):
        if steps.flag[row, l]:
            for i in range(l, N, W):
                factor[i] = steps.E[row - 1, i] * steps.scale[row, l] * steps.b[row, i]
    multiply_rows(sweep.V, factor, 0, 1)
    multiply_rows(sweep.ahead, factor, 0, 1)
    multiply_rows(sweep.G, factor, sweep.at[0], model.n)


@njit(**INLINE)
def _add_states(rows, begins, lengths, t, b, row, n_x, post, emission, gamma) -> None:  # type: ignore[no-untyped-def]
    """Add the posteriors of step t to the emissions, and write them if they are wanted."""
    W, zero = lengths.size, splat(0.0)
    for h in range(0, post.size, WIDTH):
        v = load(post, h)
        v = where_above(v, splat(_TINY), v)
        store(post, h, where_above(load(b, row + h), zero, v))
    for l in range(W):
        if t >= lengths[l]:
            continue
        at = begins[l] + t
        code = U(rows[at] if rows[at] >= 0 else emission.shape[0] - 1)
        for x in range(U(n_x)):
            emission[code, x] += post[x * U(W) + U(l)]
        if gamma.size > 0:
            everything = 0.0
            for x in range(n_x):
                everything += post[x * W + l]
            share = 1.0 / everything if everything > 0.0 else 0.0
            for x in range(n_x):
                gamma[at, x] = post[x * W + l] * share


@njit(**INLINE)
def _look_ahead(model, sweep, t, f, row, duration, W) -> None:  # type: ignore[no-untyped-def]
    """Durations below n_d of the stays that begin at t: their part of H, and their counts.

    Two steps share one reading of the rows, where G is not rescaled between them: the sums of an
    even step are made with those of the odd one after it, and the counts of an odd one wait.
    """
    G, H, ahead, waiting, at = sweep.G, sweep.H, sweep.ahead, sweep.waiting, sweep.at
    D, n, P, N = model.D, model.n, model.last.shape[1], H.size
    start, even = at[0] * N, n + n % 2
    for q in range(0, model.n_x, WIDTH if W == 1 else 1):
        for h in range(q * W, q * W + max(W, WIDTH), WIDTH):
            here = load(f, row + h)
            if t % 2:
                store(H, h, two_row_sums(D, q, P, G, start + h, even, N, W, ahead, h))
                store(waiting, h, here)
                continue
            s = load(ahead, h) if at[1] else row_sum(D, q + P, P, G, start + N + h, even, N, W)
            store(H, h, fma(entry(D, q, W), load(G, start + h), s))
            if not at[2]:
                for j in range(h, n * N, N):
                    add_at(duration, j, here, load(G, start + j))
                continue
            late, g = load(waiting, h), load(G, start + h)
            for j in range(h, n * N, N):
                s = fma(here, g, load(duration, j))
                g = load(G, start + j + N)
                store(duration, j, fma(late, g, s))
    at[1] = at[2] = t % 2


@njit(**INNER, inline="always")
def _sweep(model, evidence, group, steps, first, last, sweep, sums) -> None:  # type: ignore[no-untyped-def]
    """Backward over steps first to last - 1, adding up what is expected to happen there."""
    G, V, post, H, _, waiting, w, _, at, _ = sweep
    f, b, E, out, top, _, _, settled = steps
    _, initial, transition, duration, emission, last_sums, _, gamma = sums
    _, _, AT, _, _, last_D, _, _, n_x, n = model
    begins, lengths = group
    N, W, P = V.size, lengths.size, last_D.shape[1]
    stride, width = (WIDTH if W == 1 else 1), max(W, WIDTH)
    for t in range(last - 1, first - 1, -1):
        row = (t - first + 1) * N
        before, start = row - N, at[0] * N
        begins_here = False
        if t + 1 >= lengths[W - 1]:
            for l in range(W):
                begins_here = begins_here or lengths[l] == t + 1
        settles = settled[t - first + 1]
        if at[2] and (begins_here or settles or t == 0):
            _add_durations(duration, n, waiting, G, start + N)
            at[2] = 0
        if begins_here:
            at[1] = 0
            _begin_lanes(model, group, steps, t - first + 1, t, sweep, sums)
        _add_states(evidence.rows, begins, lengths, t, b, row, n_x, post, emission, gamma)
        if settles:
            _unsettle(model, steps, t - first + 1, sweep)
        if t == 0:
            for h in range(0, N, WIDTH):
                add_at(initial, n * N + h, splat(1.0), load(V, h))
                for j in range(h, n * N, N):
                    add_at(initial, j, splat(1.0), load(G, start + j))
            break
        if n > 0:
            _look_ahead(model, sweep, t, f, row, duration, W)
        for q in range(0, n_x, stride):
            for h in range(q * W, q * W + width, WIDTH):
                v, here = load(V, h), load(f, row + h)
                s = entry(last_D, q, W) * v
                if n > 0:
                    s = s + load(H, h)
                add_at(last_sums, h, here, v)
                store(post, h, load(post, h) - here * s)
                store(w, h, least(s / load(E, before + h), splat(CEILING)))
        end = start + max(n - 1, 0) * N
        if at[0] == 0:
            move(G, n, N)
            at[0] = EVERY
            end += EVERY * N
        at[0] -= 1
        start = at[0] * N
        for q in range(0, n_x, stride):
            for l in range(0, width, WIDTH):
                h = q * W + l
                leave, into = mixed(AT, q, P, n_x, w, l, W), load(w, h)
                for y in range(n_x):
                    add_at(transition, y * N + h, of_state(out, before + y * W + l, W), into)
                store(post, h, fma(load(out, before + h), leave, load(post, h)))
                leave = least(load(E, before + h) * leave, splat(CEILING))
                v, above = load(V, h), load(top, before + h)
                add_at(last_sums, N + h, above, v)
                g = leave
                if n > 0:
                    g = load(G, end + h)
                    add_at(last_sums, 2 * N + h, above, g)
                    g = entry(last_D, 2 * P + q, W) * g
                store(V, h, fma(entry(last_D, P + q, W), v, g))
                store(G, start + h, leave)


@njit(**INNER)
def _finish_lanes(model, group, forward, t, order, k, sweep, log_probs) -> None:  # type: ignore[no-untyped-def]
    """The probabilities of the sequences whose last step is t, and of their states there."""
    W, n_x = sweep.p.size, model.n_x
    add_up(model, forward)
    for l in range(W):
        if group.lengths[l] != t + 1:
            continue
        p = forward.total[l]
        if model.stop.size > 0:
            p = ending_in(forward.out, model.stop, l, W)
        sweep.p[l] = p
        log_probs[order[k + l]] = log_of(p, forward.shifts[l])
        share = 1.0 / p if p > 0.0 else 0.0
        for x in range(n_x):
            i = x * W + l
            here = forward.E[i] * forward.sums[i]
            if model.stop.size > 0:
                here = forward.out[i] * model.stop[x]
            sweep.post[i] = here * share


@njit(**INNER)
def _keep_head(forward, steps, head, save) -> None:  # type: ignore[no-untyped-def]
    """Save the state of the forward pass before a block, or bring it back; it is row 0, too."""
    size, N, at = forward.recent.size, forward.E.size, forward.at
    rest = head[2]
    if not save:
        at[0] = int(rest[4 * N])
        for i in range(size):
            forward.recent[i], forward.down[i] = head[0, i], head[1, i]
        for i in range(N):
            forward.E[i], forward.top[i] = rest[i], rest[N + i]
            forward.ahead[i], forward.out[i] = rest[2 * N + i], rest[3 * N + i]
    rest[4 * N] = at[0]
    for i in range(size):
        head[0, i], head[1, i] = forward.recent[i], forward.down[i]
    for i in range(N):
        rest[i], rest[N + i] = forward.E[i], forward.top[i]
        rest[2 * N + i], rest[3 * N + i] = forward.ahead[i], forward.out[i]
        steps.E[0, i], steps.out[0, i] = forward.E[i], forward.out[i]
        steps.top[0, i] = forward.top[i]


@njit(**KERNEL)
def run_chunk(model, evidence, order, group, forward, steps, sweep, sums):  # type: ignore[no-untyped-def]
    """Log-probabilities of some sequences, the longest first, W at a time, and the other sums.

    Forward over blocks of steps, then backward over them; without room for steps, forward only.
    """
    W, wanted = group.lengths.size, steps.f.size > 0
    for k in range(0, order.size, W):
        n = set_group(evidence, order, k, group)
        for l in range(W):
            forward.shifts[l], sweep.p[l] = 0, 0.0
            if group.lengths[l] == 0 and l < n:
                sums.log_probs[order[k + l]] = log_of(model.empty, 0)
        for i in range(sweep.post.size):
            sweep.post[i], sweep.V[i] = 0.0, 0.0
        for i in range(sweep.G.size):
            sweep.G[i] = 0.0
        sweep.at[0], sweep.at[1], sweep.at[2] = EVERY, 0, 0
        T, alive = group.lengths[0], n
        size = steps.f.shape[0] - 1 if wanted else max(T, 1)
        n_blocks = (T + size - 1) // size
        for visit in range(2 * n_blocks if wanted else n_blocks):
            again = visit >= n_blocks
            m = 2 * n_blocks - 1 - visit if again else visit
            t, last = m * size, min((m + 1) * size, T)
            if m > 0 and (not again or m < n_blocks - 1):
                _keep_head(forward, steps, sweep.heads[m], not again)
            elif m == 0 and wanted:
                for i in range(sweep.post.size):
                    steps.E[0, i] = 1.0
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
