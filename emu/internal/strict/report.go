package strict

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// ExitCode is emu's exit code if the programs succeeded but the report is not empty.
const ExitCode = 99

const (
	maxEntries = 1000 // rules times processes that are kept apart
	maxDetail  = 400  // bytes
	maxTold    = 3    // details printed of each entry; the rest is counted
)

// UnknownRuleError is a rule to ignore that does not exist.
type UnknownRuleError struct{ Name string }

// Error lists the rules.
func (e *UnknownRuleError) Error() string {
	names := make([]string, len(Rules))
	for i, r := range Rules {
		names[i] = r.Name
	}
	return fmt.Sprintf("no strict rule %q; want one of %s", e.Name, strings.Join(names, ", "))
}

// Entry is one rule broken by one process.
type Entry struct {
	Rule    string `json:"rule"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
	Count   uint64 `json:"count"`
	Detail  string `json:"detail"` // of the first time
}

type key struct {
	rule string
	pid  int
}

// Report collects violations. It is safe for concurrent use, and never waits for what it prints to.
type Report struct {
	out    printer
	ignore []string

	mu      sync.Mutex
	entries []*Entry
	by      map[key]*Entry
	names   map[int]string
	total   uint64
	more    uint64 // violations of entries beyond the limit
	ignored uint64
}

// New returns an empty report that prints each rule's first violations to w at once. The rules in ignore are counted
// and forgotten.
func New(w io.Writer, ignore []string) (*Report, error) {
	for _, n := range ignore {
		if !Known(n) {
			return nil, &UnknownRuleError{n}
		}
	}
	r := &Report{ignore: ignore, by: map[key]*Entry{}, names: map[int]string{}}
	r.out.start(w)
	return r, nil
}

// Violation adds one.
func (r *Report) Violation(pid int, rule, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.ignore, rule) {
		r.ignored++
		return
	}
	r.total++
	k := key{rule, pid}
	e := r.by[k]
	if e == nil {
		if len(r.entries) >= maxEntries {
			r.more++
			return
		}
		if len(detail) > maxDetail {
			detail = detail[:maxDetail] + "…"
		}
		e = &Entry{Rule: rule, PID: pid, Program: r.program(pid), Detail: detail}
		r.by[k] = e
		r.entries = append(r.entries, e)
	}
	e.Count++
	if e.Count > maxTold {
		return
	}
	s := fmt.Sprintf("emu: strict: %s: %s (%d): %s\n", rule, visible(e.Program), pid, visible(detail))
	if a := find(rule); a != nil && e.Count == 1 {
		s += "    an adapter: " + a.Silicon + "\n    look at:    " + a.Look + "\n"
	}
	if e.Count == maxTold {
		s += "    (more of these are only counted)\n"
	}
	r.out.print(s)
}

// visible quotes a program's text that a terminal would not just show.
func visible(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	return strconv.Quote(s)
}

// Opened remembers the name of a process that opens a device: it may be gone when the report needs it.
func (r *Report) Opened(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, pid) // perhaps another process's before
	r.program(pid)
}

// program names a process once: it may be gone when the report is printed.
func (r *Report) program(pid int) string {
	n, ok := r.names[pid]
	if !ok {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		if n = string(bytes.TrimSpace(b)); err != nil || n == "" {
			n = "?"
		}
		r.names[pid] = n
	}
	return n
}

// Entries returns a copy of what was found, in the order in which it was.
func (r *Report) Entries() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	es := make([]Entry, len(r.entries))
	for i, e := range r.entries {
		es[i] = *e
	}
	return es
}

// Finish prints what was found and returns the exit code that it asks for: 0 or ExitCode.
func (r *Report) Finish() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total > 0 {
		var b strings.Builder
		fmt.Fprintf(&b, "emu: strict: %d violations:\n", r.total)
		for _, e := range r.entries {
			fmt.Fprintf(&b, "  %6d × %-16s %s (%d), first: %s\n", e.Count, e.Rule, visible(e.Program), e.PID,
				visible(e.Detail))
		}
		if r.more > 0 {
			fmt.Fprintf(&b, "  %6d × others, beyond the %d that are told apart\n", r.more, maxEntries)
		}
		if r.ignored > 0 {
			fmt.Fprintf(&b, "  %6d ignored\n", r.ignored)
		}
		r.out.print(b.String())
	}
	r.out.finish()
	if r.total > 0 {
		return ExitCode
	}
	return 0
}
