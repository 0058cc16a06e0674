package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/ibv"
)

type options struct {
	device, port, file string
	ibPort             uint8
	gid                int
	size, mtu          int
	clients, tests     int
	sl                 uint8
	events             bool
	timeout            time.Duration
	host               string // empty for a server
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := cm.Flags("xsrq_pingpong")
	f.StringVarP(&o.port, "port", "p", "18515", "TCP `port` of the server")
	f.StringVarP(&o.device, "ib-dev", "d", "", "`device` (default the first)")
	f.Uint8VarP(&o.ibPort, "ib-port", "i", 1, "`port` of the device")
	f.IntVarP(&o.size, "size", "s", 4096, "`bytes` in a message")
	f.IntVarP(&o.mtu, "mtu", "m", 1024, "path MTU in `bytes`")
	f.IntVarP(&o.clients, "clients", "c", 1, "`number` of clients, for a server")
	f.IntVarP(&o.tests, "num_tests", "n", 5, "`messages` to and from each client")
	f.Uint8VarP(&o.sl, "sl", "l", 0, "service `level`")
	f.BoolVarP(&o.events, "events", "e", false, "sleep until messages come, instead of polling")
	f.IntVarP(&o.gid, "gid-idx", "g", ibv.BestGID, "`index` of the GID (default the best)")
	f.StringVar(&o.file, "file", "/tmp/xrc_domain", "`file` by which processes share the XRC domain")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a message")
	if len(args) > 0 && len(args[len(args)-1]) > 0 && args[len(args)-1][0] != '-' {
		// The last argument is the host, unless it is the value of a flag.
		probe := cm.Flags("xsrq_pingpong")
		probe.AddFlagSet(f)
		if probe.Parse(args) == nil && probe.NArg() == 1 && probe.Arg(0) == args[len(args)-1] {
			o.host, args = probe.Arg(0), args[:len(args)-1]
		}
	}
	err := cm.Parse(f, args, "xsrq_pingpong [options]\nxsrq_pingpong [options] HOST\n", func() error {
		if _, ok := ibv.MTUFromBytes(o.mtu); !ok {
			return fmt.Errorf("-m %d: want 256 to 4096", o.mtu)
		}
		if o.host != "" && o.clients != 1 {
			return errors.New("-c is for a server")
		}
		return errors.Join(cm.Within("-s", o.size, 1, math.MaxInt32), cm.Within("-c", o.clients, 1, 1000),
			cm.Within("-n", o.tests, 1, math.MaxInt32))
	})
	return o, err
}

func (o *options) cqOptions() *ibv.CQOptions {
	if o.events {
		return &ibv.CQOptions{Spin: -1}
	}
	return &ibv.CQOptions{Spin: time.Hour}
}
