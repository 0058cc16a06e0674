package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

var logging sync.Mutex

// logTo returns what writes lines for people.
func logTo(w io.Writer) func(format string, v ...any) {
	return func(format string, v ...any) {
		logging.Lock()
		defer logging.Unlock()
		fmt.Fprintf(w, "rdmaperf: %s\n", printable.Message(fmt.Sprintf(format, v...)))
	}
}

// serveStock serves stock clients until ctx ends.
func serveStock(ctx context.Context, bind string, list []agent.Stock, ready func() error,
	log func(format string, v ...any)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var notified error
	err = agent.ServeStock(ctx, self, bind, list, func() {
		if notified = ready(); notified != nil {
			cancel()
		}
	}, log)
	return errors.Join(notified, err)
}

// stockServers reads the tests of --stock. The device of the agent is theirs, unless they name one.
func (a *agentOptions) stockServers() ([]agent.Stock, error) {
	var list []agent.Stock
	used := map[int]string{}
	for _, line := range a.stock {
		words := strings.Fields(line)
		if len(words) < 2 {
			return nil, fmt.Errorf("--stock %q: no test; write, for example, \"write bw -p 18515\"", line)
		}
		args := append(append(append([]string{}, words[:2]...), a.near()...), words[2:]...)
		o, err := parse(args)
		if err == nil {
			err = o.stockable()
		}
		if errors.Is(err, errHelp) || errors.Is(err, errVersion) {
			err = errors.New("only a test, without --help and --version")
		}
		if err != nil {
			return nil, fmt.Errorf("--stock %q: %w", line, err)
		}
		if other := used[o.plan.Peer.Port]; other != "" {
			return nil, fmt.Errorf("--stock %q: TCP port (-p) %d is also that of %q: perftest's exchange does not "+
				"name the test, so each needs a port", line, o.plan.Peer.Port, other)
		}
		used[o.plan.Peer.Port] = line
		list = append(list, agent.Stock{Name: strings.Join(words, " "), Args: args, Port: o.plan.Peer.Port})
	}
	return list, nil
}

// stockable returns why a test cannot wait for stock clients, or nil.
func (o *options) stockable() error {
	p := &o.plan
	switch {
	case p.Connects():
		return fmt.Errorf("server %q: a stock server only waits for clients; give no SERVER", p.Peer.Host)
	case p.Peer.Port == 0:
		return errors.New("tcp port (-p) 0: a stock client must know the port; give one")
	case p.ByCM():
		return errors.New("rdma_cm (-R, -z): not supported; stock clients exchange over TCP")
	case p.Transport == wire.RawEth:
		return errors.New("connection type (-c) RawEth: its ends do not connect; run rdmaperf send separately")
	case p.Verify:
		return errors.New("payload check (--verify): a stock client sends no known payload")
	case p.Load.SizeList != nil:
		return errors.New("list of sizes (--sizes): a stock client has only all sizes (-a)")
	case p.Load.Rounds > 1:
		return errors.New("rounds (--rounds): a stock client has one")
	case p.Load.Infinite:
		return errors.New("endless run (--run-infinitely): no other client could be served")
	case o.format != formatText || len(o.files()) > 0:
		return errors.New("--json, --csv, --json-file and --out-json: not with --stock; results are written to the log")
	}
	return nil
}
