package agent

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestJoinAgain: an agent that is turned away before anything was said, at any step, comes again. One of several
// addresses is enough. An agent that is refused ends, with the reason.
func TestJoinAgain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	join := func(ctx context.Context) chan error {
		w := &Worker{Hello: Hello{Name: "n", Program: "p"}}
		ended := make(chan error, 1)
		go func() { ended <- Join(ctx, []string{"127.0.0.1:1", ln.Addr().String()}, good, w, testutil.Patience) }()
		return ended
	}
	accept := func() net.Conn {
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ended := join(t.Context())
	accept().Close()
	c := accept()
	if _, err := authenticate(c, good); err != nil {
		t.Fatal(err)
	}
	c.Close()
	r, err := Accept(t.Context(), accept(), good)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Admit(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	r.Refuse("")
	if err := <-ended; err != nil {
		t.Errorf("an agent at the end of the mesh: %v", err)
	}
	<-r.Ended()
	ended = join(t.Context())
	if r, err = Accept(t.Context(), accept(), good); err != nil {
		t.Fatal(err)
	}
	r.Refuse("go away")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "go away") {
		t.Errorf("an agent that is refused: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended = join(ctx)
	c = accept()
	defer c.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("an agent that is told to end: %v", err)
	}
	if err := Join(t.Context(), []string{"127.0.0.1:1"}, good, &Worker{}, 0); err == nil {
		t.Error("no error where nobody listens")
	}
}

// TestJoinGone: a coordinator that ends before it has admitted an agent is not waited for; one that has not begun is.
func TestJoinGone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.77.0.1:0") // where no other program takes the port meanwhile
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close() // it has not begun
	ended := make(chan error, 1)
	w := &Worker{Hello: Hello{Name: "n", Program: "p"}}
	go func() { ended <- Join(t.Context(), []string{"127.0.0.1:1", addr}, good, w, 10*testutil.Patience) }()
	select {
	case err := <-ended:
		t.Fatalf("an agent does not wait for its coordinator: %v", err)
	case <-time.After(closes + closes/2):
	}
	if ln, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authenticate(c, good); err != nil {
		t.Fatal(err)
	}
	ln.Close()
	c.Close()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "the coordinator at "+addr+" has ended") {
			t.Errorf("an agent whose coordinator is gone: %v", err)
		}
	case <-time.After(testutil.Patience):
		t.Error("an agent waits for a coordinator that is gone")
	}
}

// TestJoinLongList: the node list of a large allocation, most of whose nodes are not next to each other, fits.
func TestJoinLongList(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var list strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&list, "%05d,", 2*i)
	}
	w := &Worker{Hello: Hello{Name: "n", Place: roster.Place{Nodes: "node[" + list.String() + "99999]"}}}
	ended := make(chan error, 1)
	go func() { ended <- Join(t.Context(), []string{ln.Addr().String()}, good, w, testutil.Patience) }()
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Accept(t.Context(), c, good)
	if err != nil {
		t.Fatal(err)
	}
	if r.Place != w.Place {
		t.Errorf("the list has %d bytes, want %d", len(r.Place.Nodes), len(w.Place.Nodes))
	}
	r.Refuse("")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAsk: an agent that answers a question with an error is there.
func TestAsk(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	r := newRemote(Hello{}, newLink(&frames{Conn: here, raw: here}, time.Hour))
	agent := newLink(&frames{Conn: there, raw: there}, time.Hour)
	go func() {
		var m message
		if err := agent.f.receive(&m, maxRequest); err != nil {
			t.Error(err)
		}
		if err := r.take(message{Op: opHere, ID: m.ID, Error: "no"}); err != nil {
			t.Error(err)
		}
	}()
	if err := r.Ask(t.Context(), testutil.Patience); err != nil {
		t.Error(err)
	}
}
