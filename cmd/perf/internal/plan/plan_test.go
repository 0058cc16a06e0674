package engine

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

func base(v wire.Verb, m wire.Metric) Config {
	return Config{Verb: v, Metric: m, Port: wire.DefaultPort, IBPort: 1, GIDIndex: Auto, QPs: 1, PostList: 1,
		Inline: Auto, Margin: Auto, QPTimeout: 14, Timeout: time.Second, LatencyDef: RoundTrip}
}

// TestResolveDefaults pins the numbers that a stock peer reckons with.
func TestResolveDefaults(t *testing.T) {
	for _, tc := range []struct {
		name               string
		cfg                Config
		set                func(*Config)
		size, iters        uint64
		tx, rx, mod, sizes int
	}{
		{"write bw", base(wire.Write, wire.Bandwidth), nil, 65536, 5000, 128, 0, 1, 1},
		{"read bw", base(wire.Read, wire.Bandwidth), nil, 65536, 1000, 128, 0, 1, 1},
		{"send bw", base(wire.Send, wire.Bandwidth), nil, 65536, 1000, 128, 512, 1, 1},
		{"write lat", base(wire.Write, wire.Latency), nil, 2, 1000, 1, 0, 1, 1},
		{"send lat", base(wire.Send, wire.Latency), nil, 2, 1000, 1, 512, 1, 1},
		{"small bw", base(wire.Write, wire.Bandwidth), func(c *Config) { c.Size = 8192 }, 8192, 5000, 128, 0, 100, 1},
		{"all sizes", base(wire.Write, wire.Bandwidth), func(c *Config) { c.All = true }, 8 << 20, 5000, 128, 0, 100, 23},
		{"some sizes", base(wire.Write, wire.Bandwidth), func(c *Config) { c.All = true; c.Size = 4096 }, 4096, 5000, 128, 0, 100, 12},
		{"few messages", base(wire.Send, wire.Bandwidth), func(c *Config) { c.Iters = 20; c.Size = 64 }, 64, 20, 20, 20, 20, 1},
		{"post list", base(wire.Write, wire.Bandwidth), func(c *Config) { c.PostList = 4; c.Iters = 40 }, 65536, 40, 40, 0, 4, 1},
		{"duration", base(wire.Write, wire.Bandwidth), func(c *Config) { c.Duration = 4 * time.Second }, 65536, 0, 128, 0, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tc.cfg
			if tc.set != nil {
				tc.set(&c)
			}
			if err := c.Resolve(); err != nil {
				t.Fatal(err)
			}
			if c.Size != tc.size || c.Iters != tc.iters || c.TxDepth != tc.tx || c.RxDepth != tc.rx || c.CQMod != tc.mod || len(c.Sizes()) != tc.sizes {
				t.Errorf("size %d, iterations %d, depths %d and %d, moderation %d, %d sizes; want %+v",
					c.Size, c.Iters, c.TxDepth, c.RxDepth, c.CQMod, len(c.Sizes()), tc)
			}
		})
	}
	c := base(wire.Write, wire.Bandwidth)
	c.Duration = 4 * time.Second
	if err := c.Resolve(); err != nil || c.Margin != time.Second {
		t.Errorf("margin %v, %v; want a quarter of 4s", c.Margin, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		m    wire.Metric
		v    wire.Verb
		set  func(*Config)
		want string
	}{
		{"iterations", wire.Bandwidth, wire.Write, func(c *Config) { c.Iters = 4 }, "4 < 5"},
		{"depth", wire.Bandwidth, wire.Write, func(c *Config) { c.TxDepth = 15001 }, "15001"},
		{"negative depth", wire.Bandwidth, wire.Write, func(c *Config) { c.TxDepth = -1 }, "-1"},
		{"receive depth of write", wire.Bandwidth, wire.Write, func(c *Config) { c.RxDepth = 4 }, "only send"},
		{"queue pairs", wire.Bandwidth, wire.Write, func(c *Config) { c.QPs = 0 }, "1 to 16384"},
		{"queue pairs of latency", wire.Latency, wire.Write, func(c *Config) { c.QPs = 2 }, "measured on one"},
		{"post list of latency", wire.Latency, wire.Write, func(c *Config) { c.PostList = 2 }, "only bandwidth"},
		{"post list and iterations", wire.Bandwidth, wire.Write, func(c *Config) { c.PostList = 3 }, "multiple"},
		{"post list and moderation", wire.Bandwidth, wire.Write, func(c *Config) { c.PostList = 4; c.CQMod = 3 }, "multiple"},
		{"post list beyond depth", wire.Bandwidth, wire.Write, func(c *Config) { c.PostList = 200; c.TxDepth = 128 }, "200 > send queue depth"},
		{"both directions of latency", wire.Latency, wire.Send, func(c *Config) { c.Bidirectional = true }, "-b"},
		{"events of write lat", wire.Latency, wire.Write, func(c *Config) { c.Events = true }, "-e"},
		{"duration and iterations", wire.Bandwidth, wire.Write, func(c *Config) { c.Duration = time.Second; c.Iters = 5 }, "not both"},
		{"duration and all", wire.Bandwidth, wire.Write, func(c *Config) { c.Duration = time.Second; c.All = true }, "-a"},
		{"margin", wire.Bandwidth, wire.Write, func(c *Config) { c.Duration = 2 * time.Second; c.Margin = time.Second }, "margin"},
		{"size", wire.Bandwidth, wire.Write, func(c *Config) { c.Size = 1<<31 + 1 }, "largest message"},
		{"odd end of a sweep", wire.Bandwidth, wire.Write, func(c *Config) { c.All = true; c.Size = 3000 }, "power of two"},
		{"mtu", wire.Bandwidth, wire.Write, func(c *Config) { c.MTU = 1500 }, "1500"},
		{"timeout", wire.Bandwidth, wire.Write, func(c *Config) { c.QPTimeout = 32 }, "32 > 31"},
		{"port", wire.Bandwidth, wire.Write, func(c *Config) { c.Port = 0 }, "tcp port"},
		{"inline read", wire.Bandwidth, wire.Read, func(c *Config) { c.Inline = 8 }, "read sends nothing"},
		{"outs of write", wire.Bandwidth, wire.Write, func(c *Config) { c.OutReads = 4 }, "only read"},
		{"definition of bw", wire.Bandwidth, wire.Write, func(c *Config) { c.LatencyDef = ToCompletion }, "only latency"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := base(tc.v, tc.m)
			tc.set(&c)
			if err := c.Resolve(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Resolve = %v, want one that says %q", err, tc.want)
			}
		})
	}
}

func TestResolveTellsAll(t *testing.T) {
	c := base(wire.Write, wire.Latency)
	c.QPs, c.PostList, c.MTU = 2, 2, 77
	err := c.Resolve()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("Resolve = %v, want three complaints", err)
	}
}

// TestPeerMemory bounds what a peer's pages can cost.
func TestPeerMemory(t *testing.T) {
	for _, tt := range []struct {
		size        uint64
		qps         int
		page, line  int
		slot, total uint64
		ok          bool
	}{
		{65536, 1, 4096, 64, 65536, 131072, true},
		{2, 1, 65536, 128, 65536, 131072, true},
		{2, 64, 256 << 10, 64, 256 << 10, 32 << 20, true},
		{2, 16384, 4096, 64, 4096, 128 << 20, true},     // as many as there may be
		{65536, 16384, 65536, 64, 65536, 2 << 30, true}, // the size is this end's wish
		{2, 1024, 256 << 10, 64, 0, 0, false},
		{2, 16384, 256 << 10, 64, 0, 0, false},
	} {
		c := &Config{Size: tt.size, QPs: tt.qps}
		slot, total, err := c.memory(4096, wire.Agreed{PageSize: tt.page, CacheLine: tt.line})
		if tt.ok != (err == nil) || slot != tt.slot || total != tt.total {
			t.Errorf("%+v: slot %d, total %d, error %v", tt, slot, total, err)
		}
		var pe *PeerMemoryError
		if !tt.ok && (!errors.As(err, &pe) || pe.PageSize != tt.page || pe.QPs != tt.qps || !strings.Contains(err.Error(), "(-q)")) {
			t.Errorf("%+v: error %v, want a *PeerMemoryError", tt, err)
		}
	}
}

// TestPeerReport takes any numbers from a peer, and gives none that cannot be printed.
func TestPeerReport(t *testing.T) {
	wild := []float64{0, -1, 1, 5e-324, 1e300, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	x := &test{session: session{cfg: &Config{}}}
	for _, rate := range wild {
		for _, avg := range wild {
			for _, peak := range wild {
				for _, size := range []uint64{0, 2, math.MaxUint64} {
					bw := x.peerBandwidth(wire.Report{Size: size, MsgRate: rate, AvgBW: avg, PeakBW: peak})
					for _, v := range []float64{bw.MessagesPerSecond, bw.BitsPerSecond, bw.PeakBitsPerSecond} {
						if v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
							t.Fatalf("size %d, rate %g, average %g, peak %g: %+v", size, rate, avg, peak, bw)
						}
					}
				}
			}
		}
	}
}
