package agent

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// What a test that somebody asks for may take.
const (
	mostQPs      = 256
	mostBytes    = 1 << 30 // of all queue pairs
	mostIters    = 100_000_000
	mostDuration = 10 * time.Minute
)

// CheckTest returns what an agent refuses in a test.
func CheckTest(p wire.Params) error {
	var wrong []string
	add := func(bad bool, format string, v ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, v...))
		}
	}
	add(p.Verb < wire.Send || p.Verb > wire.WriteImm, "verb %v", p.Verb)
	add(p.Metric != wire.Bandwidth && p.Metric != wire.Latency, "metric %v", p.Metric)
	add(p.Transport > wire.SRD || p.Transport == wire.RawEth, "connection type %v", p.Transport)
	add(p.Atomic > wire.FetchAdd, "atomic type %v", p.Atomic)
	add(p.QPs < 1 || p.QPs > mostQPs, "%d queue pairs, allowed are 1 to %d", p.QPs, mostQPs)
	add(p.Size < 1 || p.Size > mostBytes/uint64(min(max(p.QPs, 1), mostQPs)),
		"size %d, allowed are 1 to %d bytes in all queue pairs", p.Size, mostBytes)
	add(p.Duration < 0 || p.Duration > mostDuration, "duration %v, allowed are up to %v", p.Duration, mostDuration)
	add(p.Duration == 0 && (p.Iters < 1 || p.Iters > mostIters), "%d iterations, allowed are 1 to %d", p.Iters,
		mostIters)
	if wrong != nil {
		return fmt.Errorf("the agent refuses: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// arguments returns the command line of one end of a test.
func arguments(p wire.Params) []string {
	a := []string{p.Verb.String(), p.Metric.String(), "--json", "-c", p.Transport.String(), "-q", strconv.Itoa(p.QPs),
		"-s", strconv.FormatUint(p.Size, 10)}
	if p.Duration > 0 {
		a = append(a, "-D", p.Duration.String())
	} else {
		a = append(a, "-n", strconv.FormatUint(p.Iters, 10))
	}
	if p.Verb == wire.Atomic {
		a = append(a, "-A", p.Atomic.String())
	}
	for _, f := range []struct {
		on   bool
		flag string
	}{{p.All, "-a"}, {p.Bidirectional, "-b"}, {p.Verify, "--verify"}, {p.Gbits, "--report-gbits"},
		{p.Multicast, "-g"}, {p.Reversed, "--reversed"}} {
		if f.on {
			a = append(a, f.flag)
		}
	}
	return a
}

// checkHost refuses what is neither an address nor a name, such as an option.
func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	for _, r := range host {
		if !(r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z') {
			return fmt.Errorf("host %q is neither a name nor an address", host)
		}
	}
	if host == "" || host[0] == '-' || len(host) > 253 {
		return fmt.Errorf("host %q is neither a name nor an address", host)
	}
	return nil
}

// Operations of a request.
const (
	opHold   = "hold"   // nothing; the connection shows that both ends live
	opServer = "server" // be the server of a test; the first reply has its port
	opClient = "client" // be its client
)

type request struct {
	Op   string      `json:"op"`
	Test wire.Params `json:"test"`
	Host string      `json:"host,omitempty"` // of the server
	Port int         `json:"port,omitempty"`
}

type reply struct {
	Most   int             `json:"max_clients,omitempty"`
	Port   int             `json:"port,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // as perf --json prints it
	Error  string          `json:"error,omitempty"`
}
