package examples

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

const (
	matoseCount = 10
	matoseSize  = 100 // bytes
)

// matose are the options of an end that receives and sends as many messages as ucmatose does.
func matose() *rdmacm.Options {
	return &rdmacm.Options{
		QP: ibv.QPOptions{MaxSendWR: matoseCount, MaxRecvWR: matoseCount},
		Prepare: func(c *rdmacm.Conn) error {
			mr, err := c.PD().AllocMR(matoseSize, ibv.LocalWrite, nil)
			if err != nil {
				return err
			}
			c.OnClose(mr.Close)
			for range matoseCount {
				if _, err := c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{mr.SGE(0, matoseSize)}}}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// exchange sends the messages, at once or when all have come, and waits for those that come.
func exchange(ctx context.Context, c *rdmacm.Conn, first bool) error {
	mr, err := c.PD().AllocMR(matoseSize, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	c.OnClose(mr.Close)
	send := func() error {
		for range matoseCount {
			if _,
				err := c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
				SGEs: []ibv.SGE{mr.SGE(0, matoseSize)}}}); err != nil {
				return err
			}
		}
		return nil
	}
	if first {
		if err := send(); err != nil {
			return err
		}
	}
	received, sent := 0, 0
	wcs := make([]ibv.WC, 2*matoseCount)
	for received < matoseCount || sent < matoseCount {
		n, err := c.CQ().Wait(ctx, wcs)
		if err != nil {
			return err
		}
		for _, wc := range wcs[:n] {
			if err := wc.Err(); err != nil {
				return err
			}
			if wc.Opcode != ibv.WCRecv {
				sent++
				continue
			}
			if received++; wc.ByteLen != matoseSize {
				return errors.New("a message of another size")
			}
		}
		if !first && received == matoseCount && sent == 0 {
			first = true
			if err := send(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestRXECM_Ucmatose plays either side against ucmatose.
func TestRXECM_Ucmatose(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	t.Run("stock client", func(t *testing.T) {
		l, err := rdmacm.Listen(ctx, net.JoinHostPort(rxe.Host[0], "0"), matose())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		p := launch(t, "ucmatose", "-s", rxe.Host[0], "-p", port)
		c, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := exchange(ctx, c, true); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		p.succeeds()
		p.says("data transfers complete")
	})
	t.Run("stock server", func(t *testing.T) {
		port := nextPort()
		p := launch(t, "ucmatose", "-b", rxe.Host[0], "-p", port)
		var c *rdmacm.Conn
		for {
			var err error
			c, err = rdmacm.Dial(ctx, net.JoinHostPort(rxe.Host[0], port), matose())
			var refused *rdmacm.RejectError
			if errors.As(err, &refused) && ctx.Err() == nil {
				time.Sleep(50 * time.Millisecond) // it does not listen yet
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if err := exchange(ctx, c, false); err != nil {
			t.Error(err)
		}
		select {
		case <-c.Done(): // it ends the connection
		case <-ctx.Done():
			t.Error("the server does not disconnect")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		p.succeeds()
		p.says("data transfers complete")
	})
}
