package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// asPerf acts as the perf that an agent starts.
const asPerf = `case "$*" in
*" -p 0") echo "perf: waiting for a client on TCP port 4711" >&2; exec sleep 600 ;;
*) [ "$0" = slow ] && exec sleep 600
   echo '{"results": [{"bandwidth_bits_per_second": 8e9, "latency_p50_ns": 2000}]}' ;;
esac`

// startAgent starts an agent whose tests take for ever if speed is slow, and returns where it listens.
func startAgent(t *testing.T, name, speed string, log func(string)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended, secret := make(chan error), token(t)
	go func() {
		ended <- agent.Serve(ctx, ln, agent.Config{Token: secret, MaxClients: 2, Name: name,
			Program: []string{"/bin/sh", "-c", asPerf, speed},
			Log:     func(format string, v ...any) { log(fmt.Sprintf(format, v...)) }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().String()
}

func token(t *testing.T) agent.Token {
	t.Helper()
	t.Setenv(agent.TokenEnv, "0123456789abcdef")
	tok, err := agent.ReadToken("")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func config(t *testing.T, hosts ...string) Config {
	t.Helper()
	list, err := ParseHosts(hosts, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := wire.Params{Verb: wire.Write, Size: 64, Iters: 5, QPs: 1}
	lat := p
	p.Metric, lat.Metric = wire.Bandwidth, wire.Latency
	return Config{Hosts: list, Order: Rounds, Bandwidth: p, Latency: lat, Token: token(t), Timeout: testutil.Patience,
		Program: "perf 1"}
}

// TestRunWithoutOne: a host that cannot be reached is named and left out, and the others are measured. With a single
// one left there is nothing to measure.
func TestRunWithoutOne(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := ln.Addr().String()
	quiet := func(string) {}
	a, b := startAgent(t, "perf 1", "fast", quiet), startAgent(t, "perf 2", "fast", quiet)
	ln.Close() // now that no agent gets its port
	c := config(t, a, gone, b)
	var left []string
	c.Lost = func(h LostHost) { left = append(left, h.Host) }
	res, err := Run(t.Context(), c)
	if err != nil || !slices.Equal(left, []string{gone}) || len(res.LostHosts) != 1 || res.LostHosts[0].Host != gone ||
		!strings.Contains(res.LostHosts[0].Error, "no perf serve is listening there") {
		t.Errorf("%v, left out %q, lost %v, want %s", err, left, res.LostHosts, gone)
	}
	measured := 0
	for _, p := range res.Pairs {
		if p.Bits == 8e9 && p.P50 == 2000 && p.Error == "" {
			measured++
		} else if !p.Skipped || p.Error != "host "+gone+" is lost" {
			t.Errorf("%+v", p)
		}
	}
	if measured != 2 || len(res.Pairs) != 6 {
		t.Errorf("%d of %d pairs have figures, want 2 of 6", measured, len(res.Pairs))
	}
	if !slices.Equal(res.Others, []OtherProgram{{b, "perf 2"}}) {
		t.Errorf("other programs: %v", res.Others)
	}
	var text strings.Builder
	res.Text(&text)
	if want := "host " + b + ` runs "perf 2", not "perf 1" as here`; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, &text)
	}
	if _, err := Run(t.Context(), config(t, a, gone)); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("one host: %v", err)
	}
}

// TestRunTwice names an agent that is there by two names.
func TestRunTwice(t *testing.T) {
	a := startAgent(t, "perf 1", "fast", func(string) {})
	_, port, _ := net.SplitHostPort(a)
	_, err := Run(t.Context(), config(t, a, "[::ffff:127.0.0.1]:"+port))
	if err == nil || !strings.Contains(err.Error(), "are the same agent") {
		t.Errorf("%v", err)
	}
}

// TestRunInterrupted: a pair that was interrupted lost no host.
func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var once sync.Once
	begun := func(line string) {
		if strings.Contains(line, "client of") {
			once.Do(func() { cancel(errors.New("signal")) })
		}
	}
	res, err := Run(ctx, config(t, startAgent(t, "perf 1", "slow", begun), startAgent(t, "perf 1", "slow", begun)))
	if err == nil || err.Error() != "signal" || len(res.LostHosts) > 0 || len(res.Pairs) != 1 ||
		res.Pairs[0].Error != "interrupted" {
		t.Errorf("%v, lost %v, pairs %+v", err, res.LostHosts, res.Pairs)
	}
}
