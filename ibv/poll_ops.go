package ibv

import "github.com/pureverbs/pureverbs/internal/ops"

// pollOps polls through the provider's poll_cq.
// Preconditions: cq.mu is held, cq.poller is not nil, nothing is held.
func (cq *CQ) pollOps(wcs []WC) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	return cq.pollRest(wcs, cq.ops.poller.Poll(len(wcs)))
}

// pollRest is pollOps after the first call of poll_cq, which returned got.
func (cq *CQ) pollRest(wcs []WC, got int) (n int, _ error) {
	p := cq.ops.poller
	for got > 0 {
		fromC(&wcs[n], p.First(), got, cq.entries.sl)
		if n += got; got < ops.PollBatch || n == len(wcs) {
			break
		}
		got = p.Poll(len(wcs) - n)
	}
	if got < 0 && n == 0 {
		return 0, cq.errPoll // after some completions the provider will report it again
	}
	if cq.ops.rooms != nil {
		cq.freeRoom(wcs[:n])
	}
	return n, nil
}
