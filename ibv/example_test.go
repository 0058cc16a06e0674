package ibv_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// end is what one process has: here both ends are in one, and the exchange is an assignment.
type end struct {
	dev *ibv.Device
	pd  *ibv.PD
	cq  *ibv.CQ
	qp  *ibv.QP
	mr  *ibv.MR
}

// newEnd opens a device, "" for the first one with an active port, and makes what a connection takes.
func newEnd(device string) (e *end, err error) {
	e = &end{}
	defer func() {
		if err != nil {
			_ = e.close()
		}
	}()
	if e.dev, err = ibv.Open(device); err != nil {
		return e, err
	}
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return e, err
	}
	if e.cq, err = e.dev.CreateCQ(64, nil); err != nil {
		return e, err
	}
	if e.mr, err = e.pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite, nil); err != nil {
		return e, err
	}
	e.qp, err = e.pd.CreateQP(e.cq, e.cq, nil)
	return e, err
}

// close undoes newEnd: first what uses, then what is used.
func (e *end) close() error {
	if e.qp != nil {
		if err := e.qp.Close(); err != nil {
			return err
		}
	}
	if e.mr != nil {
		if err := e.mr.Close(); err != nil {
			return err
		}
	}
	if e.cq != nil {
		if err := e.cq.Close(); err != nil {
			return err
		}
	}
	if e.pd != nil {
		if err := e.pd.Close(); err != nil {
			return err
		}
	}
	if e.dev != nil {
		return e.dev.Close()
	}
	return nil
}

// transfer writes a message into another end's memory and returns what arrived there.
func transfer(device, message string) (string, error) {
	a, err := newEnd(device)
	if err != nil {
		return "", err
	}
	defer func() { _ = a.close() }()
	b, err := newEnd(device)
	if err != nil {
		return "", err
	}
	defer func() { _ = b.close() }()

	// Over a socket, send the Endpoint (text, JSON or 38 bytes) and MR.Remote (JSON).
	toB, err := b.qp.Endpoint(1, ibv.BestGID)
	if err != nil {
		return "", err
	}
	toA, err := a.qp.Endpoint(1, ibv.BestGID)
	if err != nil {
		return "", err
	}
	remote := b.mr.Remote()
	if err := a.qp.Connect(toB, nil); err != nil {
		return "", err
	}
	if err := b.qp.Connect(toA, nil); err != nil {
		return "", err
	}
	// Between two processes, wait here until the peer says that its Connect is done:
	// what arrives before is not answered, and costs a retransmission at best.

	n := copy(a.mr.Bytes(), message)
	batch := a.qp.Batch()
	batch.Write(1, ibv.Signaled, a.mr.SGE(0, n), remote.At(0))
	if err := batch.Post(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wcs [1]ibv.WC
	if _, err := a.cq.Wait(ctx, wcs[:]); err != nil {
		return "", err
	}
	if err := wcs[0].Err(); err != nil {
		return "", err
	}
	return string(b.mr.Bytes()[:n]), nil
}

// A write from one end to the other. Both are in one process, and on one device.
func Example() {
	got, err := transfer("", "over the wire")
	if err != nil {
		fmt.Println(err) // says what is missing, and what to do about it
		return
	}
	fmt.Println(got)
}
