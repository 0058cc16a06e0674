package plan

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

func base(v wire.Verb, m wire.Metric) Options {
	return Options{Verb: v, Metric: m, Peer: Peer{Port: wire.DefaultPort, Timeout: time.Second},
		Link:   Link{IBPort: 1, GIDIndex: Auto, QPTimeout: 14},
		Queues: Queues{QPs: 1, PostList: 1, Inline: Auto}, Load: Load{Margin: Auto}, Place: Place{Node: Auto},
		Report: Report{LatencyDef: RoundTrip}}
}

// TestResolveDefaults pins the numbers that a stock peer reckons with.
func TestNewDefaults(t *testing.T) {
	for _, tc := range []struct {
		name               string
		cfg                Options
		set                func(*Options)
		size, iters        uint64
		tx, rx, mod, sizes int
	}{
		{"write bw", base(wire.Write, wire.Bandwidth), nil, 65536, 5000, 128, 0, 1, 1},
		{"read bw", base(wire.Read, wire.Bandwidth), nil, 65536, 1000, 128, 0, 1, 1},
		{"send bw", base(wire.Send, wire.Bandwidth), nil, 65536, 1000, 128, 512, 1, 1},
		{"write lat", base(wire.Write, wire.Latency), nil, 2, 1000, 1, 0, 1, 1},
		{"send lat", base(wire.Send, wire.Latency), nil, 2, 1000, 1, 512, 1, 1},
		{"small bw", base(wire.Write, wire.Bandwidth), func(c *Options) { c.Load.Size = 8192 }, 8192, 5000, 128, 0, 100,
			1},
		{"all sizes", base(wire.Write, wire.Bandwidth), func(c *Options) { c.Load.All = true }, 8 << 20, 5000, 128, 0,
			100,
			23},
		{"some sizes", base(wire.Write, wire.Bandwidth), func(c *Options) { c.Load.All = true; c.Load.Size = 4096 },
			4096, 5000,
			128, 0, 100, 12},
		{"few messages", base(wire.Send, wire.Bandwidth), func(c *Options) { c.Load.Iters = 20; c.Load.Size = 64 }, 64,
			20, 20,
			20, 20, 1},
		{"post list", base(wire.Write, wire.Bandwidth), func(c *Options) { c.Queues.PostList = 4; c.Load.Iters = 40 },
			65536, 40,
			40, 0, 4, 1},
		{"duration", base(wire.Write, wire.Bandwidth), func(c *Options) { c.Load.Duration = 4 * time.Second }, 65536, 0,
			128, 0, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tc.cfg
			if tc.set != nil {
				tc.set(&c)
			}
			p, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			if p.Load.Size != tc.size || p.Load.Iters != tc.iters || p.Queues.TxDepth != tc.tx ||
				p.Queues.RxDepth != tc.rx ||
				p.Queues.CQMod != tc.mod || len(p.Sizes()) != tc.sizes {
				t.Errorf("size %d, iterations %d, depths %d and %d, moderation %d, %d sizes; want %+v",
					p.Load.Size, p.Load.Iters, p.Queues.TxDepth, p.Queues.RxDepth, p.Queues.CQMod, len(p.Sizes()), tc)
			}
		})
	}
	c := base(wire.Write, wire.Bandwidth)
	c.Load.Duration = 4 * time.Second
	if p, err := New(c); err != nil || p.Load.Margin != time.Second {
		t.Errorf("margin %v, %v; want a quarter of 4s", p.Load.Margin, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		m    wire.Metric
		v    wire.Verb
		set  func(*Options)
		want string
	}{
		{"iterations", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Iters = 4 }, "4 < 5"},
		{"depth", wire.Bandwidth, wire.Write, func(c *Options) { c.Queues.TxDepth = 15001 }, "15001"},
		{"negative depth", wire.Bandwidth, wire.Write, func(c *Options) { c.Queues.TxDepth = -1 }, "-1"},
		{"receive depth of write", wire.Bandwidth, wire.Write, func(c *Options) { c.Queues.RxDepth = 4 }, "only send"},
		{"queue pairs", wire.Bandwidth, wire.Write, func(c *Options) { c.Queues.QPs = 0 }, "1 to 16384"},
		{"queue pairs of latency", wire.Latency, wire.Write, func(c *Options) { c.Queues.QPs = 2 }, "measured on one"},
		{"post list of latency", wire.Latency, wire.Write, func(c *Options) { c.Queues.PostList = 2 },
			"only for bandwidth"},
		{"post list and iterations", wire.Bandwidth, wire.Write, func(c *Options) { c.Queues.PostList = 3 },
			"multiple"},
		{"post list and moderation", wire.Bandwidth, wire.Write,
			func(c *Options) { c.Queues.PostList = 4; c.Queues.CQMod = 3 },
			"multiple"},
		{"post list beyond depth", wire.Bandwidth, wire.Write,
			func(c *Options) { c.Queues.PostList = 200; c.Queues.TxDepth = 128 },
			"200 > send queue depth"},
		{"both directions of latency", wire.Latency, wire.Send, func(c *Options) { c.Load.Bidirectional = true }, "-b"},
		{"events of write lat", wire.Latency, wire.Write, func(c *Options) { c.Queues.Events = true }, "-e"},
		{"duration and iterations", wire.Bandwidth, wire.Write,
			func(c *Options) { c.Load.Duration = time.Second; c.Load.Iters = 5 }, "not both"},
		{"duration and all", wire.Bandwidth, wire.Write,
			func(c *Options) { c.Load.Duration = time.Second; c.Load.All = true },
			"-a"},
		{"margin", wire.Bandwidth, wire.Write,
			func(c *Options) { c.Load.Duration = 2 * time.Second; c.Load.Margin = time.Second }, "margin"},
		{"size", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Size = 1<<31 + 1 }, "largest message"},
		{"odd end of a sweep", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.All = true; c.Load.Size = 3000 },
			"power of two"},
		{"mtu", wire.Bandwidth, wire.Write, func(c *Options) { c.Link.MTU = 1500 }, "1500"},
		{"timeout", wire.Bandwidth, wire.Write, func(c *Options) { c.Link.QPTimeout = 32 }, "32 > 31"},
		{"port", wire.Bandwidth, wire.Write, func(c *Options) { c.Peer.Port, c.Peer.Host = 0, "host" }, "tcp port"},
		{"inline read", wire.Bandwidth, wire.Read, func(c *Options) { c.Queues.Inline = 8 }, "read sends nothing"},
		{"outs of write", wire.Bandwidth, wire.Write, func(c *Options) { c.Link.OutReads = 4 }, "only for read"},
		{"endless latency", wire.Latency, wire.Send, func(c *Options) { c.Load.Infinite = true }, "only for bandwidth"},
		{"endless sweep", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Infinite, c.Load.All = true, true },
			"one size"},
		{"endless and checked", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Infinite, c.Verify = true, true },
			"not with an endless run"},
		{"endless with both", wire.Bandwidth, wire.Write, func(c *Options) {
			c.Load.Infinite, c.Load.Interval, c.Load.Duration, c.Load.Margin = true, time.Second, time.Second, 0
		}, "not both"},
		{"short interval", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Interval = time.Millisecond },
			"< 100ms"},
		{"endless rounds", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Infinite, c.Load.Rounds = true, 2 },
			"no rounds"},
		{"rounds by time", wire.Bandwidth, wire.Write, func(c *Options) {
			c.Load.Rounds, c.Load.Duration, c.Load.Margin = 2, time.Second, 0
		}, "not with a duration"},
		{"negative rate", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Rate.Limit = -1 }, "above 0"},
		{"rate that is none", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Rate.Limit = math.NaN() },
			"above 0"},
		{"burst of nothing", wire.Bandwidth, wire.Write, func(c *Options) { c.Load.Rate.Burst = 4 }, "needs a rate"},
		{"burst below the list", wire.Bandwidth, wire.Write, func(c *Options) {
			c.Peer.Host, c.Queues.PostList, c.Load.Rate = "a", 8, Rate{Limit: 1000, Burst: 4}
		}, "allowed: 8"},
		{"rate of latency", wire.Latency, wire.Send, func(c *Options) { c.Load.Rate.Limit = 1000 },
			"only for bandwidth"},
		{"rate by events", wire.Bandwidth, wire.Write, func(c *Options) {
			c.Peer.Host, c.Queues.Events, c.Load.Rate.Limit = "a", true, 1000
		}, "give no -e"},
		{"rate too low for the timeout", wire.Bandwidth, wire.Write, func(c *Options) {
			c.Peer.Host, c.Load.Rate = "a", Rate{Limit: 0.1, Unit: MessagesPerSecond}
		}, "half of --timeout"},
		{"rate too low for the sample", wire.Bandwidth, wire.Write, func(c *Options) {
			c.Peer.Host, c.Load.Rate = "a", Rate{Limit: 10, Unit: MessagesPerSecond, Burst: 5}
			c.Load.Duration, c.Load.Margin = time.Second, 0
		}, "a quarter of what -D"},
		{"receive list of write", wire.Bandwidth, wire.Write, func(c *Options) { c.Queues.RecvList = 4 }, "only send"},
		{"receive list of latency", wire.Latency, wire.Send, func(c *Options) { c.Queues.RecvList = 4 },
			"only for bandwidth"},
		{"receive list too long", wire.Bandwidth, wire.Send, func(c *Options) { c.Queues.RecvList = 513 }, "1 to 512"},
		{"poll for many", wire.Bandwidth, wire.Write, func(c *Options) { c.Queues.PollMax = 17 }, "1 to 16"},
		{"poll of latency", wire.Latency, wire.Send, func(c *Options) { c.Queues.PollMax = 4 }, "only for bandwidth"},
		{"flow label", wire.Bandwidth, wire.Write, func(c *Options) { c.Link.FlowLabels = []uint32{1, 1 << 20} },
			"> 1048575"},
		{"flow label by rdma_cm", wire.Bandwidth, wire.Write, func(c *Options) {
			c.Peer.RDMACM, c.Link.FlowLabels = true, []uint32{5}
		}, "the path decides"},
		{"definition of bw", wire.Bandwidth, wire.Write, func(c *Options) { c.Report.LatencyDef = ToCompletion },
			"only for latency"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := base(tc.v, tc.m)
			tc.set(&c)
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New = %v, want one that says %q", err, tc.want)
			}
		})
	}
}

// TestRounds: all sizes are measured in turn, and a peer that measures them once is told.
func TestRounds(t *testing.T) {
	c := base(wire.Write, wire.Bandwidth)
	c.Load.Rounds, c.Load.SizeList = 2, []uint64{64, 8}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Sizes(); !slices.Equal(got, []uint64{64, 8, 64, 8}) {
		t.Errorf("sizes %v", got)
	}
	c.Load.SizeList, c.Load.Size = nil, 64
	one := c
	one.Load.Rounds = 0
	p, _ = New(c)
	q, _ := New(one)
	err = p.Params().Check(q.Params())
	if !p.Sweep() || p.Load.All || len(p.Sizes()) != 2 || err == nil || !strings.Contains(err.Error(), "--rounds") {
		t.Errorf("sizes %v; against one round: %v", p.Sizes(), err)
	}
}

// TestBurst: a burst takes a millisecond at most, unless it is asked for, and is no deeper than the send queue.
func TestBurst(t *testing.T) {
	for _, tc := range []struct {
		limit       float64
		list, burst int
		want        int
	}{{1000, 1, 0, 1}, {20000, 1, 0, 20}, {1e6, 1, 0, 128}, {1000, 4, 0, 4}, {1000, 1, 64, 64}} {
		c := base(wire.Write, wire.Bandwidth)
		c.Peer.Host, c.Queues.PostList = "a", tc.list
		c.Load.Rate = Rate{Limit: tc.limit, Unit: MessagesPerSecond, Burst: tc.burst}
		if p, err := New(c); err != nil || p.Load.Rate.Burst != tc.want {
			t.Errorf("%v messages per second, lists of %d: bursts of %d, %v; want %d", tc.limit, tc.list,
				p.Load.Rate.Burst,
				err, tc.want)
		}
	}
}

func TestNewTellsAll(t *testing.T) {
	c := base(wire.Write, wire.Latency)
	c.Queues.QPs, c.Queues.PostList, c.Link.MTU = 2, 2, 77
	_, err := New(c)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("New = %v, want three complaints", err)
	}
}

// TestNewTakesEveryTest keeps each test of the command line possible with nothing but its name.
func TestNewTakesEveryTest(t *testing.T) {
	for _, v := range []wire.Verb{wire.Send, wire.Write, wire.Read} {
		for _, m := range []wire.Metric{wire.Bandwidth, wire.Latency} {
			o := base(v, m)
			p, err := New(o)
			if err != nil {
				t.Errorf("%v %v: %v", v, m, err)
			}
			if !reflect.DeepEqual(o, base(v, m)) {
				t.Errorf("%v %v: New changed the options", v, m)
			}
			if again, err := New(p.Options); err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%v %v: %+v planned again is %+v, %v", v, m, p, again, err)
			}
		}
	}
}

// TestRoles: who posts, who posts receives, and where payload comes to rest.
func TestRoles(t *testing.T) {
	const server, client = "", "host"
	for _, tc := range []struct {
		verb                    wire.Verb
		metric                  wire.Metric
		host                    string
		both                    bool
		sends, receives, landed bool
	}{
		{wire.Write, wire.Bandwidth, client, false, true, false, false},
		{wire.Write, wire.Bandwidth, server, false, false, false, true},
		{wire.Write, wire.Bandwidth, server, true, true, false, true},
		{wire.Write, wire.Latency, client, false, true, false, true},
		{wire.Write, wire.Latency, server, false, true, false, true},
		{wire.Read, wire.Bandwidth, client, false, true, false, true},
		{wire.Read, wire.Bandwidth, server, false, false, false, false},
		{wire.Read, wire.Bandwidth, server, true, true, false, true},
		{wire.Read, wire.Latency, client, false, true, false, true},
		{wire.Read, wire.Latency, server, false, false, false, false},
		{wire.Send, wire.Bandwidth, client, false, true, false, false},
		{wire.Send, wire.Bandwidth, server, false, false, true, true},
		{wire.Send, wire.Bandwidth, client, true, true, true, true},
		{wire.Send, wire.Latency, client, false, true, true, true},
		{wire.Send, wire.Latency, server, false, true, true, true},
	} {
		o := base(tc.verb, tc.metric)
		o.Peer.Host, o.Load.Bidirectional = tc.host, tc.both
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if p.Sends() != tc.sends || p.Receives() != tc.receives || p.Lands() != tc.landed {
			t.Errorf("%v %v, host %q, both %v: sends %v, receives %v, lands %v; want %v, %v, %v", tc.verb, tc.metric,
				tc.host, tc.both, p.Sends(), p.Receives(), p.Lands(), tc.sends, tc.receives, tc.landed)
		}
	}
}

// TestEnds: an XRC queue pair has one direction, and is connected to one of the other kind.
func TestEnds(t *testing.T) {
	for _, tc := range []struct {
		verb      wire.Verb
		metric    wire.Metric
		transport wire.Transport
		both      bool
		ends      int
	}{
		{wire.Write, wire.Bandwidth, wire.XRC, false, 3},
		{wire.Send, wire.Bandwidth, wire.XRC, true, 6},
		{wire.Read, wire.Latency, wire.XRC, false, 2},
		{wire.Send, wire.Bandwidth, wire.RC, true, 3},
	} {
		var ends [2]Plan
		for i, host := range []string{"", "host"} {
			o := base(tc.verb, tc.metric)
			o.Peer.Host, o.Load.Bidirectional, o.Transport = host, tc.both, tc.transport
			if tc.metric == wire.Bandwidth {
				o.Queues.QPs = 3
			}
			var err error
			if ends[i], err = New(o); err != nil {
				t.Fatal(err)
			}
		}
		server, client := &ends[0], &ends[1]
		if server.Ends() != tc.ends || client.Ends() != tc.ends {
			t.Fatalf("%+v: %d and %d ends", tc, server.Ends(), client.Ends())
		}
		for i := range tc.ends {
			p := client.Partner(i)
			if server.Partner(p) != i {
				t.Errorf("%+v: partner of %d is %d, whose partner is %d", tc, i, p, server.Partner(p))
			}
			if tc.transport == wire.XRC && server.Target(p) == client.Target(i) || tc.transport != wire.XRC &&
				(server.Target(p) || client.Target(i)) {
				t.Errorf("%+v: number %d only receives %v, its partner %v", tc, i, client.Target(i), server.Target(p))
			}
		}
		if n := server.RxEach() * server.sharers(); tc.verb == wire.Send &&
			(n != server.Queues.RxDepth || n < server.Queues.QPs) {
			t.Errorf("%+v: %d receives in a queue of %d", tc, n, server.Queues.RxDepth)
		}
	}
}

func TestRails(t *testing.T) {
	for _, tc := range []struct{ device, host, want string }{
		{"a", "h", "a to h port 18515"},
		{"a,b", "h", "a to h port 18515; b to h port 18516"},
		{"a", "h,i,h", "a to h port 18515; a to i port 18515; a to h port 18516"},
		{"a,b", "h,i", "a to h port 18515; b to i port 18515"},
		{"a,b", "", "a at port 18515; b at port 18516"},
		{"", "h,i", "default device to h port 18515; default device to i port 18515"},
		{"a,b", "h,i,k", "2 devices (-d) and 3 servers"},
		{"a,", "h", "number 2 has no name"},
		{"a", "h,,i", "number 2 has no name"},
		{strings.Repeat("a,", 64) + "a", "h", "65 devices"},
	} {
		o := base(wire.Write, wire.Bandwidth)
		o.Link.Device, o.Peer.Host = tc.device, tc.host
		rails, err := Rails(o)
		var names []string
		for i := range rails {
			names = append(names, rails[i].Rail())
		}
		got := strings.Join(names, "; ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) || err == nil && got != tc.want {
			t.Errorf("devices %q, servers %q: %q, %v; want %q", tc.device, tc.host, got, err, tc.want)
		}
	}
	o := base(wire.Write, wire.Bandwidth)
	o.Link.Device, o.Peer.Port = "a,b", 65535
	if _, err := Rails(o); err == nil {
		t.Error("port 65536 is accepted")
	}
}
