package rdmacm

import (
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestRXE_CM_Connect takes a connection through its life, with the QPs ours and
// with the QPs librdmacm's, each way.
func TestRXE_CM_Connect(t *testing.T) {
	for _, c := range []struct {
		name            string
		active, passive bool
	}{{"ours", false, false}, {"librdmacm's", true, true}, {"active librdmacm's", true, false}, {"passive librdmacm's", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			ch := newChannel(t)
			l, addr := listener(t, ch, TCP, 4)
			id := resolved(t, ch, TCP, addr)
			a := newRig(t, id, c.active)
			ok(t, id.Connect(a.param("hello")))

			req := event(t, ch, ConnectRequest)
			peer := closing(t, req.ID)
			if req.Listener != l || string(req.PrivateData[:5]) != "hello" || len(req.PrivateData) != TCP.ConnectDataLimit() {
				t.Fatalf("request of %v with %q", req.Listener, req.PrivateData)
			}
			if req.Conn.QPN != a.qp.Num() {
				t.Errorf("request of QP %#x, want %#x", req.Conn.QPN, a.qp.Num())
			}
			b := newRig(t, peer, c.passive)
			if !c.passive {
				ok(t, peer.BringUp(b.qp, nil))
			}
			ok(t, peer.Accept(b.param("welcome")))

			if !c.active {
				resp := event(t, ch, ConnectResponse)
				if string(resp.PrivateData[:7]) != "welcome" || resp.Conn.QPN != b.qp.Num() {
					t.Fatalf("response %q of QP %#x", resp.PrivateData, resp.Conn.QPN)
				}
				ok(t, id.BringUp(a.qp, nil))
				ok(t, id.Establish())
				if ev := event(t, ch, Established); ev.ID != peer {
					t.Fatalf("established is %v, want %v", ev.ID, peer)
				}
			} else {
				got := map[*ID]bool{event(t, ch, Established).ID: true, event(t, ch, Established).ID: true}
				if !got[id] || !got[peer] {
					t.Fatalf("established are %v", got)
				}
			}
			pingpong(t, a, b)

			ok(t, id.Disconnect())
			if ev := event(t, ch, Disconnected); ev.ID != peer {
				t.Fatalf("disconnected is %v, want the peer", ev.ID)
			}
			ok(t, peer.Disconnect()) // the answer
			if ev := event(t, ch, Disconnected); ev.ID != id {
				t.Fatalf("disconnected is %v, want the one that did", ev.ID)
			}
			if c.active {
				if s := a.qp.State(); s != ibv.StateErr {
					t.Errorf("the QP is in %v after disconnect", s)
				}
			}
		})
	}
}
