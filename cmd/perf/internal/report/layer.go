package report

import (
	"fmt"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/layer"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Layer prints the figures of package rdma for people.
func Layer(w io.Writer, o *layer.Options, res *layer.Result) {
	fmt.Fprintf(w, "%s %s, %s\n", o.Carrier, o.Metric, role(o.Client()))
	if res.Transport != "" {
		fmt.Fprintf(w, "  over     %s\n", printable.Name(res.Transport))
	}
	fmt.Fprintf(w, "  peer     %s\n", printable.Name(res.Peer))
	if !o.Client() {
		fmt.Fprintln(w, "  options  the client's")
	} else {
		fmt.Fprintf(w, "  options  connections %d%s\n", o.Conns,
			lists.When(o.Rounds > 1, fmt.Sprintf(", medians of %d alternating rounds", o.Rounds)))
	}
	var memory []string
	lat := false
	for i, l := range res.Lines() {
		if i == 0 || lat != (l.Lat != nil) {
			lat = l.Lat != nil
			layerColumns(w, lat)
		}
		layerLine(w, l)
		memory = append(memory, layerMemory("client", l.ClientMemory)...)
		memory = append(memory, layerMemory("server", l.ServerMemory)...)
	}
	for _, m := range memory {
		fmt.Fprintln(w, m)
	}
}

func layerColumns(w io.Writer, lat bool) {
	if lat {
		fmt.Fprintf(w, "%10s %12s %8s %9s %9s %9s %9s %9s  [usec] %9s %9s  [CPU usec/round trip]\n",
			"#bytes", "#iterations", "over", "min", "p50", "p90", "p99", "max", "client", "server")
		return
	}
	fmt.Fprintf(w, "%10s %12s %8s %12s %10s %9s %9s %10s %10s %9s %9s\n", "#bytes", "#messages", "over", "MiB/sec",
		"Mpps", "send", "receive", "send", "receive", "allocs", "messages")
	fmt.Fprintf(w, "%10s %12s %8s %12s %10s %19s %21s %9s %9s\n", "", "", "", "", "", "[CPU ns/KiB]",
		"[CPU ns/message]", "/message", "/wake")
}

func layerLine(w io.Writer, l layer.Line) {
	fmt.Fprintf(w, "%10d %12d %8s", l.Bytes, l.Messages, l.Carrier)
	send, receive := l.CPU(l.Client), l.CPU(l.Server)
	if s := l.Lat; s != nil {
		fmt.Fprintf(w, " %9s %9s %9s %9s %9s         %9s %9s\n", micros(s.Min), percentile(s.P50), percentile(s.P90),
			percentile(s.P99), micros(s.Max), rate(send/1000, 2), rate(receive/1000, 2))
		return
	}
	kib := float64(l.Bytes) / 1024
	fmt.Fprintf(w, " %12s %10s %9s %9s %10s %10s", rate(l.Bits/(8<<20), 2), rate(l.Rate/1e6, 6), rate(send/kib, 1),
		rate(receive/kib, 1), rate(send, 0), rate(receive, 0))
	allocs, perWake := "-", "-"
	if l.Carrier == layer.Stream || l.Carrier == layer.Message || l.Carrier == layer.Buffer {
		if l.Client != nil && l.Server != nil {
			allocs = fmt.Sprintf("%.2f", float64(l.Client.Allocs+l.Server.Allocs)/float64(l.Messages))
		}
		if l.Server != nil {
			perWake = fmt.Sprintf("%.1f", float64(l.Messages)/float64(max(l.Server.Wakes, 1)))
		}
	}
	fmt.Fprintf(w, " %9s %9s\n", allocs, perWake)
	if l.Carrier == layer.Copy && l.Client != nil && l.Server != nil {
		per := 1e9 / float64(l.Messages)
		send, receive = l.Client.Copying*per, l.Server.Copying*per
		fmt.Fprintf(w, "%10s %12s %8s %12s %10s %9s %9s %10s %10s\n", "", "", "of it", "copying", "", rate(send/kib, 1),
			rate(receive/kib, 1), rate(send, 0), rate(receive, 0))
	}
}

func layerMemory(end string, m *layer.Memory) []string {
	if m == nil {
		return nil
	}
	if m.Resident == 0 {
		return []string{fmt.Sprintf("note: an idle connection costs the %s %d bytes in the Go heap, in addition to "+
			"blocks", end, m.Heap/int64(m.Conns))}
	}
	return []string{fmt.Sprintf("note: an idle connection costs the %s %d bytes in addition to blocks, %d of them "+
		"in the Go heap", end, m.Resident/int64(m.Conns), m.Heap/int64(m.Conns))}
}

type layerDoc struct {
	Schema    string      `json:"schema"`
	Version   int         `json:"version"`
	Started   string      `json:"started"`
	Elapsed   float64     `json:"elapsed_seconds"`
	Program   string      `json:"program"`
	Command   []string    `json:"command,omitempty"`
	Host      *Host       `json:"host,omitempty"`
	Test      layerTest   `json:"test"`
	Transport string      `json:"transport,omitempty"`
	Peer      string      `json:"peer,omitempty"`
	Results   []layer.Run `json:"results"`
	Error     string      `json:"error,omitempty"`
}

type layerTest struct {
	Verb   string `json:"verb"`
	Metric string `json:"metric"`
	Role   string `json:"role"`
	Rounds int    `json:"rounds"`
}

// LayerJSON writes every run as part of one object, with an error if there was one.
func LayerJSON(w io.Writer, o *layer.Options, res *layer.Result, program string, command []string, host *Host,
	failure error) error {
	return printable.WriteJSON(w, layerDoc{
		Schema: Schema, Version: SchemaVersion,
		Started: res.Started.UTC().Format(time.RFC3339), Elapsed: res.Elapsed.Seconds(),
		Program: program, Command: command, Host: host,
		Test:      layerTest{string(o.Carrier), o.Metric.String(), role(o.Client()).String(), o.Rounds},
		Transport: res.Transport, Peer: res.Peer, Results: append([]layer.Run{}, res.Runs...), Error: text(failure),
	}, "  ")
}
