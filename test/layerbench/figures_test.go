//go:build linux && amd64 && !race

package layerbench

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/test/compare"
)

// all prints all figures.
func (b *bench) all() error {
	fmt.Fprintln(b.out, "# emulated device, which shares the processors with both ends: ratios and counts only")
	return errors.Join(b.large(), b.tcp(), b.frames(), b.latency(), b.idle("", "at most 26000"), b.many())
}

// large compares a stream of 1 MiB writes with copying the same bytes: with the blocks that package rdma chooses, and
// with smaller ones, of which more are sent and waited for.
func (b *bench) large() error {
	copying := func(u *usage) float64 { return u.Copying }
	cpu := func(u *usage) float64 { return u.CPU }
	perWrite := func(of func(*usage) float64) func(x, _ *result) float64 {
		return func(x, _ *result) float64 { return (of(&x.Client) + of(&x.Server)) / 2 / x.Messages * 1e6 }
	}
	for _, with := range []struct {
		suffix, goal string
		opt          []string
	}{
		{"", "at most 1.35", nil},
		{"_blocks_32K", "none", []string{"--block", "32K"}},
	} {
		opt := append([]string{"stream", "bw", "-s", "1M", "-n", b.messages(2000)}, with.opt...)
		r, err := b.turns("copy", opt...)
		if err != nil {
			return err
		}
		b.cpu("stream_cpu_vs_memcpy"+with.suffix, with.goal, r, "stream", "copy", copying)
		b.figure("stream_cpu_1M"+with.suffix, "us", "none", r.median("stream", "copy", perWrite(cpu)),
			fmt.Sprintf("of an end, for each MiB; copying it %.1f us", r.median("copy", "copy", perWrite(copying))))
	}
	return nil
}

// tcp compares the processor time of streams with that of TCP over loopback.
func (b *bench) tcp() error {
	cpu := func(u *usage) float64 { return u.CPU }
	r, err := b.turns("tcp", "stream", "bw", "-s", "64K", "-n", b.messages(10_000))
	if err != nil {
		return err
	}
	b.cpu("stream_cpu_vs_tcp_64k", "at most 1.0", r, "stream", "tcp", cpu)
	if r, err = b.turns("tcp", "stream", "bw", "-s", "64", "-n", b.messages(200_000)); err != nil {
		return err
	}
	b.cpu("stream_cpu_vs_tcp_64", "at most 0.25", r, "stream", "tcp", cpu)
	return nil
}

// frames compares 32 KiB, a block, with rdmaperf send, and counts wakes and allocations.
func (b *bench) frames() error {
	rate := func(x, y *result) float64 { return x.Rate / y.Rate }
	r, err := b.turns("send,message,buffer", "stream", "bw", "-s", "32K", "-n", b.messages(10_000))
	if err != nil {
		return err
	}
	b.figure("stream_vs_raw_send_32k", "ratio", "at least 0.5", r.median("stream", "send", rate), "")
	b.figure("msg_zero_copy_vs_raw_32k", "ratio", "at least 0.9", r.median("buffer", "send", rate),
		fmt.Sprintf("copied by the sender %.3f", r.median("message", "send", rate)))
	wakes := func(x, _ *result) float64 { return x.Server.Frames / max(x.Server.Wakes, 1) }
	writes := func(x, _ *result) float64 { return x.Messages / max(x.Server.Wakes, 1) }
	small, err := b.turns("stream,send", "message", "bw", "-s", "64", "-n", b.messages(500_000))
	if err != nil {
		return err
	}
	b.figure("msg_vs_raw_send_64", "ratio", "none", small.median("message", "send", rate),
		"messages of 64 bytes share frames; rdmaperf send has a work request for each")
	b.figure("msgs_per_wake", "frames", "at least 10", r.median("stream", "stream", wakes),
		fmt.Sprintf("stream of 32 KiB, %.1f writes; messages of 32 KiB %.1f; of 64 bytes %.1f, %.0f messages",
			r.median("stream", "stream", writes), r.median("message", "message", wakes),
			small.median("message", "message", wakes), small.median("message", "message", writes)))
	allocs := func(x, _ *result) float64 { return (x.Client.Allocs + x.Server.Allocs) / x.Messages }
	b.figure("allocs", "allocations/message", "0", small.median("message", "message", allocs),
		fmt.Sprintf("messages of 64 bytes; stream %.3f; a run's beginning and end count", small.median("stream",
			"stream", allocs)))
	return nil
}

// latency compares 8 bytes, there and back, with rdmaperf send. Each end has a processor of its own (see
// compare.Processors).
func (b *bench) latency() error {
	b.apart = true
	defer func() { b.apart = false }()
	r, err := b.turns("send,send-e,tcp", "message", "lat", "-s", "8", "-n", b.messages(5000))
	if err != nil {
		return err
	}
	p50 := func(x, y *result) float64 { return x.Lat.P50 / y.Lat.P50 }
	us := func(x, _ *result) float64 { return x.Lat.P50 / 1000 }
	b.figure("msg_lat_vs_raw_8", "ratio", "at most 1.5", r.median("message", "send", p50),
		fmt.Sprintf("medians %.1f us, rdmaperf send %.1f us, TCP %.1f us", r.median("message", "message", us),
			r.median("send", "send", us), r.median("tcp", "tcp", us)))
	b.figure("msg_lat_vs_raw_sleeping_8", "ratio", "none", r.median("message", "send-e", p50),
		fmt.Sprintf("rdmaperf send lat -e %.1f us", r.median("send-e", "send-e", us)))
	return nil
}

// idle measures the memory of an idle connection. Blocks are small, so that those of the connections are in the slab
// that is there before. Without an SRQ each connection has 4 of its own.
func (b *bench) idle(suffix, goal string) error {
	conns := 501
	if !b.whole {
		conns = 21
	}
	var list, heap []float64
	for range b.times() {
		n := fmt.Sprint(conns)
		r, err := b.run("message", "bw", "-s", "8", "-q", n, "-n", n, "--block", "1K")
		if err != nil {
			return err
		}
		for _, x := range r["message"] {
			c, s := x.ClientMemory, x.ServerMemory
			list = append(list, max(c.Resident/c.Conns, s.Resident/s.Conns))
			heap = append(heap, max(c.Heap/c.Conns, s.Heap/s.Conns))
		}
	}
	b.figure("conn_bytes"+suffix, "bytes", goal, compare.Median(list),
		fmt.Sprintf("the larger end's, resident, %d connections; %.0f of them of the Go heap", conns-1,
			compare.Median(heap)))
	return nil
}

// many compares the rate of 1,000 connections with that of 10: of messages that share frames, and of some that fill a
// block. There are so many that most come when windows do not grow and blocks are not registered any more.
func (b *bench) many() error {
	few, lots := "10", "1000"
	if !b.whole {
		few, lots = "2", "20"
	}
	for _, c := range []struct {
		size string
		n    int
	}{{"64", 40_000_000}, {"512", 8_000_000}, {"4K", 1_000_000}, {"32K", 200_000}} {
		var list []float64
		for i := range b.times() {
			var rates [2]float64
			for k := range 2 {
				which := k ^ i&1
				conns := []string{few, lots}[which]
				r, err := b.run("message", "bw", "-s", c.size, "-q", conns, "-n", b.messages(c.n))
				if err != nil {
					return err
				}
				rates[which] = r["message"][0].Rate
			}
			list = append(list, rates[1]/rates[0])
		}
		b.figure("conns_1000_vs_10_"+c.size, "ratio", "at least 0.9", compare.Median(list), "")
	}
	return nil
}

// times is how often a figure that is made of whole runs is measured.
func (b *bench) times() int {
	if b.whole {
		return 5
	}
	return 1
}
