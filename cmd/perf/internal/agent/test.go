package agent

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Limits of a requested test.
const (
	mostQPs      = 256
	mostBytes    = 1 << 30 // of all queue pairs
	mostIters    = 100_000_000
	mostDuration = 10 * time.Minute
	mostSizes    = 256
	mostSilence  = 24 * time.Hour
	mostSecret   = 128
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
	add(p.QPs < 1 || p.QPs > mostQPs, "%d queue pairs; allowed: 1 to %d", p.QPs, mostQPs)
	add(p.Size < 1 || p.Size > mostBytes/uint64(min(max(p.QPs, 1), mostQPs)),
		"size %d; allowed: 1 to %d bytes in all queue pairs", p.Size, mostBytes)
	add(p.Duration < 0 || p.Duration > mostDuration, "duration %v; allowed: up to %v", p.Duration, mostDuration)
	add(p.Silence < 0 || p.Silence > mostSilence, "timeout %v; allowed: up to %v", p.Silence, mostSilence)
	add(len(p.Secret) > mostSecret || strings.ContainsRune(string(p.Secret), 0),
		"secret of %d bytes; allowed: up to %d, none of them 0", len(p.Secret), mostSecret)
	list, err := sizes(p)
	add(err != nil || len(list) > mostSizes || list != nil && slices.Max(list) != p.Size,
		"list of sizes %.60q; allowed: up to %d, of which the largest is the size", p.Sizes, mostSizes)
	add(!p.Infinite && p.Duration == 0 && (p.Iters < 1 || p.Iters > mostIters), "%d iterations; allowed: 1 to %d",
		p.Iters, mostIters)
	if wrong != nil {
		return fmt.Errorf("the agent refuses: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// sizes returns the sizes of a list such as [64 128], nil if there is none.
func sizes(p wire.Params) (list []uint64, err error) {
	for _, f := range strings.Fields(strings.Trim(p.Sizes, "[]")) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// arguments returns the command line of one end of a test.
func arguments(p wire.Params) []string {
	a := []string{p.Verb.String(), p.Metric.String(), "--json", "-c", p.Transport.String(),
		"-q", strconv.Itoa(p.QPs)}
	add := func(on bool, option ...string) {
		if on {
			a = append(a, option...)
		}
	}
	one := p.Sizes == ""
	add(!one, "--sizes", strings.Join(strings.Fields(strings.Trim(p.Sizes, "[]")), ","))
	add(one, "-s", strconv.FormatUint(p.Size, 10))
	add(p.Infinite, "--run-infinitely")
	add(!p.Infinite && p.Duration > 0, "-D", p.Duration.String())
	add(!p.Infinite && p.Duration <= 0, "-n", strconv.FormatUint(p.Iters, 10))
	add(p.Silence > 0, "--timeout", p.Silence.String())
	add(p.Verb == wire.Atomic, "-A", p.Atomic.String())
	add(p.All && one, "-a")
	add(p.Bidirectional, "-b")
	add(p.Verify, "--verify")
	add(p.Gbits, "--report-gbits")
	add(p.Multicast, "-g")
	add(p.Reversed, "--reversed")
	add(p.ReportBoth, "--report-both")
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

// Words returns the command line of a task.
func (t *Task) Words() []string {
	words := slices.Concat(arguments(t.Test), t.Options)
	if t.Server() {
		return append(words, "-p", "0")
	}
	return append(words, "-p", strconv.Itoa(t.Port), "--", t.Host)
}

// checkServer refuses what is not where a server may be.
func checkServer(host string, port int) error {
	hosts := strings.Split(host, wire.Or)
	if len(hosts) > MostAddresses {
		return fmt.Errorf("%d addresses of a server; allowed: %d", len(hosts), MostAddresses)
	}
	for _, h := range hosts {
		if err := checkHost(h); err != nil {
			return err
		}
	}
	if port < 1 || port > 65535 {
		return fmt.Errorf("port %d; allowed: 1 to 65535", port)
	}
	return nil
}

// Operations of a request.
const (
	opHold   = "hold"   // nothing; the connection shows that both ends live
	opServer = "server" // be the server of a test; the first reply has its port
	opLink   = "link"   // be an agent of a mesh; the connection is a link from now on
)

type request struct {
	Op   string      `json:"op"`
	Test wire.Params `json:"test"`
}

type reply struct {
	Most    int    `json:"max_clients,omitempty"`
	ID      string `json:"id,omitempty"`
	Program string `json:"program,omitempty"`
	Port    int    `json:"port,omitempty"`
	Error   string `json:"error,omitempty"`
}
