package mesh

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestStrangers: a mesh begins although 1,000 connections say nothing, others talk rubbish, and some have another
// token. Who has another token is named by the address.
func TestStrangers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.Listener, c.Expect, c.Patience = ln, 3, testutil.Patience
	var mu sync.Mutex
	strangers := 0
	c.Stranger = func(_ net.Addr, why error) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(why.Error(), "different token") {
			strangers++
		}
	}
	ended := make(chan *Result)
	go func() {
		res, err := Run(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range 1000 {
		dial()
	}
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("\x00", 1<<16), "\n"} {
		conn := dial()
		io.WriteString(conn, text)
		conn.(*net.TCPConn).CloseWrite()
	}
	wrong, _ := agent.NewToken()
	err = agent.Attend(t.Context(), dial(), wrong, worker("w", roster.Nowhere, runner{}))
	if err == nil || !strings.Contains(err.Error(), "different token") {
		t.Errorf("another token: %v", err)
	}
	// Agents that know the token, and lie.
	for _, w := range []*agent.Worker{worker("twice", roster.Place{Rank: 0, Of: 3}, runner{}),
		worker("twice", roster.Place{Rank: 0, Of: 3}, runner{}), worker("far", roster.Place{Rank: 5, Of: 3}, runner{}),
		worker("a\nb", roster.Nowhere, runner{}), worker(strings.Repeat("x", 1<<20), roster.Nowhere, runner{})} {
		go agent.Attend(t.Context(), dial(), c.Token, w)
	}
	for i := range 2 {
		w := worker(fmt.Sprint("n", i), roster.Place{Rank: i + 1, Of: 3}, runner{})
		go agent.Attend(t.Context(), dial(), c.Token, w)
	}
	select {
	case res := <-ended:
		good := 0
		for _, p := range res.Pairs {
			if p.Error == "" {
				good++
			}
		}
		if good != 6 {
			t.Errorf("%d pairs have figures, want 6; %v", good, res.LostHosts)
		}
		for _, l := range res.LostHosts {
			if l.Kind != LeftOut || l.Host != "twice#2" && l.Host != "far" && l.Host != "a\nb" {
				t.Errorf("%.100q", l.String())
			}
		}
	case <-time.After(testutil.Patience):
		t.Fatal("the mesh does not begin")
	}
	mu.Lock()
	defer mu.Unlock()
	if strangers < 1 {
		t.Error("nobody is named for another token")
	}
}

// TestLiar: an agent whose messages are too long, or make no sense, is lost; the others are measured.
func TestLiar(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<31)
	for name, say := range map[string][]byte{"a huge frame": append(huge, make([]byte, 100)...),
		"no frame": []byte(strings.Repeat("x", 4096))} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c := config(t)
		c.Listener, c.Expect = ln, 3
		for i := range 3 {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			r := runner{}
			if i == 2 {
				r.begun = func(agent.Task) { conn.Write(say) }
			}
			go agent.Attend(t.Context(), conn, c.Token, worker(fmt.Sprint("n", i), roster.Nowhere, r))
		}
		res, err := Run(t.Context(), c)
		if err != nil || len(res.LostHosts) != 1 || res.LostHosts[0].Host != "n2" ||
			!strings.Contains(res.LostHosts[0].Error, "invalid frame") {
			t.Errorf("%s: %v, lost %v", name, err, res.LostHosts)
		}
		for _, p := range res.Pairs {
			if p.From != "n2" && p.To != "n2" && p.Error != "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}
