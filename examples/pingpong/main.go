// Pingpong sends messages back and forth over queue pairs of each type, with itself or with the stock
// tools, as server or as client.
//
//	pingpong rc -d mlx5_0            # on one host: waits
//	pingpong rc -d mlx5_1 HOST       # on the other, or: ibv_rc_pingpong -d mlx5_1 -g 3 HOST
//
// Types rc, uc, ud and srq are in play.go, xsrq is in xsrq.go. exchange.go has the exchange of
// addresses over TCP, game.go the contents of the messages and whose turn it is.
package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
)

const synopsis = `pingpong TYPE [options]         waits for a peer
pingpong TYPE [options] HOST    connects to a waiting peer

TYPE     connection                                      stock peer
rc       reliable                                        ibv_rc_pingpong
uc       unreliable                                      ibv_uc_pingpong
ud       none: datagrams                                 ibv_ud_pingpong
srq      reliable, several, with one receive queue       ibv_srq_pingpong
xsrq     reliable, which processes share (XRC)           ibv_xsrq_pingpong

`

func main() {
	var o *options
	program.Main("pingpong", func(args []string) (err error) {
		o, err = parse(args)
		return err
	}, func(r *program.Run) {
		if o.kind == "xsrq" {
			playXRC(r, o)
		} else {
			play(r, o)
		}
	})
}

type options struct {
	kind     string // rc, uc, ud, srq or xsrq
	host     string // of the server; empty to be the server
	tcpPort  int
	device   string // empty: the first with an active port
	port     uint8
	gid      int // index, or ibv.BestGID
	size     int
	mtu      ibv.MTU
	qps      int
	receives int
	iters    int
	sl       uint8
	events   bool
	check    bool
	clients  int    // of an XRC server
	file     string // of the XRC domain
	timeout  time.Duration
}

// server reports whether this side waits for the other.
func (o *options) server() bool { return o.host == "" }

// cqOptions selects a CQ to sleep on with -e, otherwise one to poll.
func (o *options) cqOptions() *ibv.CQOptions {
	if o.events {
		return &ibv.CQOptions{Spin: ibv.None}
	}
	return &ibv.CQOptions{NoEvents: true}
}

func parse(args []string) (*options, error) {
	o := &options{qps: 1, receives: 1, clients: 1}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.kind, args = args[0], args[1:]
	}
	xrc, size, mtu := o.kind == "xsrq", 4096, 1024
	if o.kind == "ud" {
		size = 1024
	}
	f := program.NewFlags(synopsis)
	f.Int(&o.tcpPort, "port", "p", 18515, 1, math.MaxUint16, "TCP `port` for the exchange of addresses")
	f.StringVarP(&o.device, "ib-dev", "d", "", "RDMA `device` (default the first with an active port)")
	f.Uint8VarP(&o.port, "ib-port", "i", 1, "`port` of the device")
	f.Int(&o.size, "size", "s", size, 1, math.MaxInt32, "`bytes` in a message")
	if o.kind != "ud" {
		f.IntVarP(&mtu, "mtu", "m", mtu, "path MTU in `bytes`")
	}
	if o.kind == "srq" {
		f.Int(&o.qps, "num-qp", "q", 16, 1, slots-1, "`number` of queue pairs")
	}
	if xrc {
		f.Int(&o.clients, "clients", "c", 1, 1, 1000, "`number` of clients, for a server")
		f.Int(&o.iters, "num_tests", "n", 5, 1, math.MaxInt32, "`messages` to and from each client")
		f.StringVar(&o.file, "file", "/tmp/xrc_domain", "`file` by which processes share the XRC domain")
	} else {
		f.Int(&o.receives, "rx-depth", "r", 32, 1, 1<<20, "`number` of receives to keep posted")
		f.Int(&o.iters, "iters", "n", 1000, 1, math.MaxInt32, "`number` of exchanges, of all queue pairs together")
		f.BoolVarP(&o.check, "chk", "c", false, "fill messages with a pattern and check every byte received")
	}
	f.Uint8VarP(&o.sl, "sl", "l", 0, "service `level`")
	f.BoolVarP(&o.events, "events", "e", false, "sleep until completions come (default: poll)")
	f.Int(&o.gid, "gid-idx", "g", ibv.BestGID, ibv.BestGID, math.MaxUint8,
		"`index` of the local GID (default: chosen, see show_gids)")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a reply or a completion")
	f.MaxArgs = len(args)
	err := f.Parse(args)

	switch o.kind {
	case "rc", "uc", "ud", "srq", "xsrq":
	default:
		return nil, fmt.Errorf("type %q: want rc, uc, ud, srq or xsrq", o.kind)
	}
	o.host = f.Arg(0)
	var ok bool
	o.mtu, ok = ibv.MTUFromBytes(mtu)
	return o, errors.Join(err,
		program.Want(f.NArg() <= 1, "%d hosts: want at most one", f.NArg()),
		program.Want(ok && o.mtu.Bytes() == mtu, "-m %d: want 256, 512, 1024, 2048 or 4096", mtu),
		program.Want(o.receives >= o.qps, "-r %d: want a receive for each of %d queue pairs", o.receives, o.qps),
		program.Want(o.timeout > 0, "--timeout %v: want more than 0", o.timeout),
		program.Want(o.server() || o.clients == 1, "-c is for a server"),
		program.Want(o.port > 0, "-i 0: want 1 to 255"),
		program.Want(o.sl <= 15, "-l %d: want 0 to 15", o.sl))
}
