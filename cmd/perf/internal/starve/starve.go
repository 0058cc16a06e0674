// Package starve measures for how long the threads of a process had to wait for a CPU.
package starve

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Limit is the share of a test's time above which its figures say more about the CPUs than about the device. A
// loop that polls loses as much as its thread waits, so it is that of the smallest loss that is named; the README of
// rdmaperf has figures.
const Limit = 0.1

// Waits is for how long a process waited during a test, in seconds.
type Waits struct {
	Elapsed   float64 `json:"elapsed_seconds"`
	RunDelay  float64 `json:"run_delay_seconds"`           // all of its threads, ready to run without a CPU
	Steal     float64 `json:"steal_seconds,omitempty"`     // a CPU, on average: the hypervisor ran others on it
	Throttled float64 `json:"throttled_seconds,omitempty"` // its control groups had used up their quota
}

// Share returns the waits as a share of the time, 0 if they are not known.
func (w *Waits) Share() float64 {
	if w == nil || !(w.Elapsed > 0) {
		return 0
	}
	return (w.RunDelay + w.Steal + w.Throttled) / w.Elapsed
}

// Check returns what is wrong with waits that another host sent.
func (w *Waits) Check() error {
	if w == nil {
		return nil
	}
	for _, v := range []float64{w.Elapsed, w.RunDelay, w.Steal, w.Throttled} {
		if !(v >= 0 && v <= 1e9) {
			return fmt.Errorf("waits for a CPU of %g s", v)
		}
	}
	return nil
}

// String describes them for people.
func (w *Waits) String() string {
	if w == nil || w.Elapsed <= 0 {
		return "not known"
	}
	return fmt.Sprintf("run delay %.0f %%", 100*w.RunDelay/w.Elapsed) +
		lists.When(w.Steal > 0, fmt.Sprintf(", steal %.0f %%", 100*w.Steal/w.Elapsed)) +
		lists.When(w.Throttled > 0, fmt.Sprintf(", throttled %.0f %%", 100*w.Throttled/w.Elapsed)) + " of the time"
}

// Meter measures the waits of one process. One goroutine at a time may use it.
type Meter struct {
	pid       string
	began     time.Time
	first     map[string]time.Duration // run delays of threads that were there
	last      map[string]time.Duration
	steal     float64 // in ticks of all CPUs, as is all
	all       float64
	files     []string // of control groups
	throttled time.Duration
}

// Self is the process that measures.
const Self = 0

// New begins to measure a process: Self, or a child that has just been started, which needs a Sample now and then.
func New(pid int) *Meter {
	m := &Meter{pid: "self", began: time.Now(), last: map[string]time.Duration{}}
	if pid != Self {
		m.pid = strconv.Itoa(pid)
	} else {
		m.Sample()
		m.first = m.last
		m.last = map[string]time.Duration{}
	}
	m.steal, m.all = ticks(read("/proc/stat"))
	m.files = statFiles(read("/proc/self/cgroup"), read("/proc/self/mountinfo"))
	m.throttled = m.quota()
	return m
}

func read(path string) string {
	b, _ := os.ReadFile(path) // on a system without it nothing is known
	return string(b)
}

// Sample reads what goes with the process.
func (m *Meter) Sample() {
	list, _ := filepath.Glob("/proc/" + m.pid + "/task/*/schedstat")
	for _, path := range list {
		if d, ok := runDelay(read(path)); ok {
			m.last[path] = d
		}
	}
}

// Waits returns the waits since New. Those of a child are known up to its last Sample.
func (m *Meter) Waits() Waits {
	w := Waits{Elapsed: time.Since(m.began).Seconds()}
	m.Sample()
	for thread, d := range m.last {
		w.RunDelay += max(0, d-m.first[thread]).Seconds()
	}
	if steal, all := ticks(read("/proc/stat")); all > m.all {
		w.Steal = max(0, steal-m.steal) / (all - m.all) * w.Elapsed
	}
	w.Throttled = min(max(0, m.quota()-m.throttled).Seconds(), w.Elapsed)
	return w
}

// quota returns for how long the control groups have been throttled, of those that have the process in them.
func (m *Meter) quota() (d time.Duration) {
	for _, f := range m.files {
		d += throttled(read(f))
	}
	return d
}

// runDelay reads a schedstat: nanoseconds on a CPU, nanoseconds on a run queue, and times on a CPU.
func runDelay(text string) (time.Duration, bool) {
	f := strings.Fields(text)
	if len(f) != 3 {
		return 0, false
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	return time.Duration(n), err == nil && n >= 0
}

// ticks reads of /proc/stat how long the hypervisor took the CPUs away, and how long the time was, in all.
func ticks(text string) (steal, all float64) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, 0
	}
	for i, word := range f[1:9] { // what guests get is in the others
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return 0, 0
		}
		if all += float64(n); i == 7 {
			steal = float64(n)
		}
	}
	return steal, all
}

// throttled reads a cpu.stat, of either version.
func throttled(text string) time.Duration {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil || n < 0:
		case name == "throttled_time":
			return time.Duration(n)
		case name == "throttled_usec":
			return time.Duration(n) * time.Microsecond
		}
	}
	return 0
}

// statFiles returns the cpu.stat of the control group of a process, and of those above it that are mounted.
func statFiles(cgroup, mountinfo string) (list []string) {
	v1, v2 := "", ""
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) < 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			v2 = f[2]
		}
		for name := range strings.SplitSeq(f[1], ",") {
			if name == "cpu" {
				v1 = f[2]
			}
		}
	}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(before), strings.Fields(after)
		if len(at) < 5 || len(kind) < 3 {
			continue
		}
		group := ""
		switch {
		case kind[0] == "cgroup2" && v1 == "": // else the controller is of version 1
			group = v2
		case kind[0] == "cgroup" && strings.Contains(","+kind[2]+",", ",cpu,"):
			group = v1
		}
		if group == "" {
			continue
		}
		below, inside := strings.CutPrefix(group, strings.TrimSuffix(at[3], "/"))
		for below = filepath.Clean("/" + lists.When(inside, below)); ; below = filepath.Dir(below) {
			list = append(list, filepath.Join(at[4], below, "cpu.stat"))
			if below == "/" {
				break
			}
		}
		return list
	}
	return nil
}

// Worse returns those of two waits that are longer.
func Worse(a, b *Waits) *Waits {
	if b == nil || a.Share() > b.Share() {
		return a
	}
	return b
}
