package rdma

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestRXE_CloseBeside closes connections whose peers closed first, or take nothing, until the time that calls of Close
// in vain share is used up. A Close whose peer takes what was sent waits all the same.
func TestRXE_CloseBeside(t *testing.T) {
	needLogic(t)
	for name, before := range map[string]func(t *testing.T, x, y *Stream){
		"peers that closed first": func(t *testing.T, x, y *Stream) {
			x.l.Linger.Most = 20 * time.Millisecond
			_, err := y.Write(make([]byte, 5000))
			ok(t, err)
			ok(t, y.Close())
			_, err = io.Copy(io.Discard, x)
			ok(t, err)
			_ = x.Close() // late on a busy machine
		},
		"peers that take nothing": func(t *testing.T, x, y *Stream) {
			x.l.Linger.Most = time.Millisecond
			for starved := false; !starved; { // a busy machine needs several deadlines
				ok(t, x.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
				_, err := x.Write(make([]byte, 8*link.LargeBlock))
				if err == nil {
					t.Error("a peer takes what it does not read")
				}
				x.l.Mu.Lock()
				starved = x.l.Starved()
				x.l.Mu.Unlock()
			}
			var lost *UndeliveredError
			if err := x.Close(); !errors.As(err, &lost) {
				t.Errorf("%v, want an *UndeliveredError", err)
			}
			ok(t, y.CloseNow())
		},
	} {
		for _, data := range []int{0, 5000, 2 << 20} {
			for _, slow := range []bool{false, true} {
				if slow && data < 1<<20 {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d bytes, slow %v", name, data, slow), func(t *testing.T) {
					testCloseBeside(t, before, data, slow)
				})
			}
		}
	}
}

func testCloseBeside(t *testing.T, before func(t *testing.T, x, y *Stream), data int, slow bool) {
	server, client := newEngines(t, nil)
	d := newDialer(t, server, client, wire.Stream)
	pair := func() (a, b *Stream) {
		la, lb, err := d.pair(t, client)
		ok(t, err)
		return newStream(la), newStream(lb)
	}
	a, b := pair()
	for range 20 {
		x, y := pair()
		before(t, x, y)
	}
	a.l.Linger.Most = testutil.Patience
	read := make(chan int64, 1)
	go func() {
		w := io.Discard
		if slow {
			w = writerFunc(func(p []byte) (int, error) {
				time.Sleep(20 * time.Millisecond)
				return len(p), nil
			})
		}
		n, _ := b.WriteTo(w)
		read <- n
	}()
	_, err := a.Write(make([]byte, data))
	ok(t, err)
	ok(t, a.Close())
	if n := <-read; n != int64(data) {
		t.Errorf("%d of %d bytes came", n, data)
	}
	ok(t, b.Close())
}
