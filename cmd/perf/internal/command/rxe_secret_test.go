package command

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestRXE_SecretCM: with a secret, requests for connections by rdma_cm that do not have it are refused and change
// nothing.
func TestRXE_SecretCM(t *testing.T) {
	vm := needOnce(t)
	form := append([]byte("pverbs1\x00x"), make([]byte, 12)...)
	for _, flag := range []string{"-R", "-z"} {
		t.Setenv(wire.SecretEnv, "one")
		port := freshPort()
		args := []string{"write", "bw", flag, "-n", "20", "-s", "64", "-p", port}
		srv := start(t, "rdmaperf", args...)
		says(t, srv, "waiting")
		for name, data := range map[string][]byte{"perftest's": nil, "garbage": []byte("GET / HTTP/1.0\r\n"),
			"no secret": form, "half a secret": append(slices.Clone(form), wire.Secret("one").Proof()[:8]...),
			"another secret": append(slices.Clone(form), wire.Secret("two").Proof()...)} {
			c, err := rdmacm.Dial(t.Context(), net.JoinHostPort(vm.IP[0], port), &rdmacm.Options{PrivateData: data,
				QP: ibv.QPOptions{MaxSendWR: 2, MaxRecvWR: 2}})
			if no := (*rdmacm.RejectError)(nil); !errors.As(err, &no) {
				t.Errorf("%s %s: %v, want a refusal", flag, name, err)
			}
			if err == nil {
				c.Close()
			}
		}
		t.Setenv(wire.SecretEnv, "two")
		wrong := start(t, "rdmaperf", append(slices.Clone(args), vm.IP[0])...)
		if rc := wrong.wait(t); rc != exitUnmet {
			t.Errorf("%s, another secret: exit code %d, want %d\n%s", flag, rc, exitUnmet, wrong.output())
		}
		t.Setenv(wire.SecretEnv, "one")
		cli := start(t, "rdmaperf", append(slices.Clone(args), vm.IP[0])...)
		for _, p := range []*proc{cli, srv} {
			if rc := p.wait(t); rc != exitOK {
				t.Errorf("%v: exit code %d\n%s", p.Args, rc, p.output())
			}
		}
	}
}

// TestRXE_MeshStrangers: strangers that connect to the ports of tests all the time cost no pair, whether tests run in
// the agents or in processes of their own.
func TestRXE_MeshStrangers(t *testing.T) {
	vm := needOnce(t)
	t.Setenv("RDMAPERF_TOKEN", "0123456789abcdef")
	over := make(chan struct{})
	var wg sync.WaitGroup
	for _, say := range []string{"", "GET / HTTP/1.0\r\n\r\n", strings.Repeat("x", 64)} {
		wg.Go(func() { scan(over, say, 21900, 21907) })
	}
	defer wg.Wait()
	defer close(over)
	for _, isolate := range []bool{false, true} {
		var hosts []string
		for i := range 3 {
			port := freshPort()
			args := []string{"serve", "-d", vm.Dev[i%2], "-p", port, "--bind", "127.0.0.1",
				"--test-ports", "21900-21907"}
			if isolate {
				args = append(args, "--isolate")
			}
			p := start(t, "rdmaperf", args...)
			listening(t, p, port)
			hosts = append(hosts, "127.0.0.1:"+port)
		}
		m := start(t, "rdmaperf", "mesh", "--json", "-n", "20", "--size", "64", "--cpu-wait", "0", "--reach", "60",
			"--hosts", strings.Join(hosts, ","))
		rc := m.wait(t)
		var r struct {
			Pairs []struct {
				Error string `json:"error"`
			} `json:"pairs"`
			Dark []json.RawMessage `json:"dark_nics"`
		}
		if err := json.Unmarshal([]byte(m.out.String()), &r); err != nil {
			t.Fatalf("%v\n%s", err, m.output())
		}
		for _, p := range r.Pairs {
			if p.Error != "" {
				t.Errorf("isolate %v: %s", isolate, p.Error)
			}
		}
		if rc != exitOK || len(r.Pairs) != 6 || len(r.Dark) > 0 {
			t.Errorf("isolate %v: exit code %d, %d pairs, dark %s\n%s", isolate, rc, len(r.Pairs), r.Dark,
				m.diag.String())
		}
	}
}

// scan connects to ports until over, says something, and keeps some of the connections.
func scan(over chan struct{}, say string, from, to int) {
	var held []net.Conn
	for port := from; ; port++ {
		select {
		case <-over:
			for _, c := range held {
				c.Close()
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
		if port > to {
			port = from
		}
		c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			continue
		}
		io.WriteString(c, say)
		if held = append(held, c); len(held) > 50 {
			held[0].Close()
			held = held[1:]
		}
	}
}
