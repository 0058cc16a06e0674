package pingpong

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/ibv"
)

// Exit codes of the examples.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// MaxQPs is the number of addresses that the tools with several queue pairs
// exchange, used or not.
const MaxQPs = 256

// Program describes how the programs differ.
type Program struct {
	Name string
	Size int  // default of -s
	MTU  bool // has -m
	QPs  int  // default of -q, 0 without
}

// Options are the options on the command line.
type Options struct {
	Program
	Server  string // host to connect to; empty to be the server
	TCPPort int
	Device  string // empty: the first with an active port
	Port    uint8
	GID     int // index, or ibv.BestGID
	Size    int
	MTU     ibv.MTU
	QPs     int // 1 for programs without -q
	RxDepth int
	Iters   int
	SL      uint8
	Events  bool
	Check   bool
	Timeout time.Duration
}

// IsServer reports whether this side waits and answers.
func (o *Options) IsServer() bool { return o.Server == "" }

// CQOptions returns the options of a CQ: with -e one to sleep on, otherwise one to poll.
func (o *Options) CQOptions() *ibv.CQOptions {
	if o.Events {
		return &ibv.CQOptions{Spin: -1}
	}
	return &ibv.CQOptions{NoEvents: true}
}

// Parse parses the command line. If there is nothing to run, because of -h or an error, it prints
// the help or the error and returns nil and the exit code.
func Parse(p Program, args []string, stdout, stderr io.Writer) (*Options, int) {
	o := &Options{Program: p, QPs: 1}
	f := pflag.NewFlagSet(p.Name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.IntVarP(&o.TCPPort, "port", "p", 18515, "TCP `port` for the exchange of addresses")
	f.StringVarP(&o.Device, "ib-dev", "d", "", "RDMA `device` (default the first with an active port)")
	port := f.IntP("ib-port", "i", 1, "`port` of the device")
	f.IntVarP(&o.Size, "size", "s", p.Size, "`bytes` in a message")
	mtu := 1024
	if p.MTU {
		f.IntVarP(&mtu, "mtu", "m", mtu, "path MTU in `bytes`")
	}
	if p.QPs != 0 {
		f.IntVarP(&o.QPs, "num-qp", "q", p.QPs, "`number` of queue pairs")
	}
	f.IntVarP(&o.RxDepth, "rx-depth", "r", 500, "`number` of receives to keep posted")
	f.IntVarP(&o.Iters, "iters", "n", 1000, "`number` of exchanges, of all queue pairs together")
	sl := f.IntP("sl", "l", 0, "service `level`")
	f.BoolVarP(&o.Events, "events", "e", false, "sleep until completions come (default: poll)")
	f.IntVarP(&o.GID, "gid-idx", "g", ibv.BestGID, "`index` of the local GID (default: chosen, see show_gids)")
	f.BoolVarP(&o.Check, "chk", "c", false, "fill messages with a pattern and check every byte received")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "longest `time` without an answer or a completion")

	err := f.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(stdout, "%s [options]         waits for a peer\n%[1]s [options] HOST    connects to a waiting "+
			"peer\n\n%s", p.Name, f.FlagUsages())
		return nil, ExitOK
	}
	if err == nil && f.NArg() > 1 {
		err = fmt.Errorf("one host, not %d", f.NArg())
	}
	err = errors.Join(err,
		within("-p", o.TCPPort, 1, math.MaxUint16),
		within("-i", *port, 1, math.MaxUint8),
		within("-s", o.Size, 1, math.MaxInt32),
		within("-q", o.QPs, 1, MaxQPs-1),
		within("-r", o.RxDepth, 1, 1<<20),
		within("-n", o.Iters, 1, math.MaxInt32),
		within("-l", *sl, 0, 15),
		within("-g", o.GID, ibv.BestGID, math.MaxUint8))
	if m, ok := ibv.MTUFromBytes(mtu); !ok || m.Bytes() != mtu {
		err = errors.Join(err, fmt.Errorf("-m %d: want 256, 512, 1024, 2048 or 4096", mtu))
	} else {
		o.MTU = m
	}
	if o.QPs > o.RxDepth {
		err = errors.Join(err, fmt.Errorf("-r %d: want at least one receive for each of %d queue pairs",
			o.RxDepth, o.QPs))
	}
	if o.Timeout <= 0 {
		err = errors.Join(err, fmt.Errorf("--timeout %v: want more than 0", o.Timeout))
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n%[1]s -h lists the options\n", p.Name, err)
		return nil, ExitUsage
	}
	o.Port, o.SL, o.Server = uint8(*port), uint8(*sl), f.Arg(0)
	return o, ExitOK
}

func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}
