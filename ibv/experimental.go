package ibv

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// lacking returns the error of what the library or the driver lacks.
func (d *Device) lacking(err error) error {
	var l *control.Lack
	if !errors.As(err, &l) {
		return err
	}
	e := &UnsupportedError{Feature: l.Feature, Need: l.Need, Have: l.Have}
	if l.Fields != 0 {
		e.Feature += WCFields(l.Fields).String()
	}
	if e.Have == "" {
		e.Have = d.Name()
	}
	return e
}

// needKeys returns the error of a feature for which the library has to invalidate keys, nil if it can.
func (d *Device) needKeys(feature string) error {
	if d.keys == nil {
		return nil
	}
	return &UnsupportedError{Feature: feature, Need: d.keys.Need, Have: d.keys.Have}
}

// postBy makes the send queue post in the way of the maker, and the CQ of the sends polled so.
func (sq *sender) postBy(m *qpMaker) error {
	qp := sq.qp
	if err := sq.chain.PostBy(qp.typ == DCI, m.maxAtomic > 0, m.Poster); err != nil || m.Poller == nil {
		return qp.dev.lacking(err)
	}
	return qp.send.pollBy(m.Poller)
}

// pollBy makes a CQ be polled in another way than by poll_cq, if it is not.
func (cq *CQ) pollBy(make func(cq uintptr) (control.Poller, error)) (err error) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.ops.poller == nil {
		return nil
	}
	if cq.ops.other, err = make(cq.handle); err != nil {
		return cq.dev.lacking(err)
	}
	err = cq.ops.poller.Free()
	cq.ops.poller = nil
	return err
}

// pollOther polls by cq.other, into one of the slices; the other one is nil.
// Preconditions: cq.mu is held, nothing is held.
func (cq *CQ) pollOther(wcs []WC, more []WCEx) (int, error) {
	n := 0
	for most := len(wcs) + len(more); n < most; {
		got, ok := cq.ops.other.Poll(most - n)
		if !ok {
			if n > 0 {
				return n, nil // the provider will report it again
			}
			return 0, cq.errPoll
		}
		for i := range got {
			var wc *WC
			if more != nil {
				more[n+i] = WCEx{WallClock: got[i].WallClock}
				wc = &more[n+i].WC
			} else {
				wc = &wcs[n+i]
			}
			fromC(wc, &got[i].WC, 1, cq.entries.sl)
			wc.Timestamp = got[i].Timestamp
		}
		n += len(got)
		if len(got) < ops.PollBatch {
			break
		}
	}
	return n, nil
}
