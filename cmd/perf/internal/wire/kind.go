package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/flags"
)

// Verb is the operation of a test.
type Verb uint8

// The verbs.
const (
	Send     Verb = 1
	Write    Verb = 2
	Read     Verb = 3
	Atomic   Verb = 4
	WriteImm Verb = 5
)

// Fetches reports whether the adapter of the peer replies with data: its software has no part in the test, and the
// replies count against the adapter's limit of outstanding reads.
func (v Verb) Fetches() bool { return v == Read || v == Atomic }

// Consumes reports whether each message takes a receive of the peer.
func (v Verb) Consumes() bool { return v == Send || v == WriteImm }

var verbNames = []string{Send: "send", Write: "write", Read: "read", Atomic: "atomic", WriteImm: "write_imm"}

// String returns the name as the command line has it.
func (v Verb) String() string { return flags.Name("Verb", int64(v), verbNames) }

// ParseVerb reads a name of the command line.
func ParseVerb(name string) (Verb, error) {
	return parse[Verb](name, name, verbNames, "verb %q; allowed: write, write_imm, read, send and atomic")
}

// AtomicType is the operation of an atomic test, numbered as in perftest.
type AtomicType uint8

// The atomic operations.
const (
	CompareSwap AtomicType = 0
	FetchAdd    AtomicType = 1
)

var atomicTypeNames = []string{CompareSwap: "CMP_AND_SWAP", FetchAdd: "FETCH_AND_ADD"}

// String returns the name as the command line has it.
func (a AtomicType) String() string { return flags.Name("AtomicType", int64(a), atomicTypeNames) }

// ParseAtomicType reads a name of the command line.
func ParseAtomicType(name string) (AtomicType, error) {
	return parse[AtomicType](name, strings.ToUpper(name), atomicTypeNames,
		"atomic type (-A) %q; allowed: CMP_AND_SWAP and FETCH_AND_ADD")
}

// Metric is the quantity that a test measures.
type Metric uint8

// The metrics.
const (
	Bandwidth Metric = 1
	Latency   Metric = 2
)

var metricNames = []string{Bandwidth: "bw", Latency: "lat"}

// String returns the name as the command line has it.
func (m Metric) String() string { return flags.Name("Metric", int64(m), metricNames) }

// ParseMetric reads a name of the command line.
func ParseMetric(name string) (Metric, error) {
	return parse[Metric](name, name, metricNames, "metric %q; allowed: bw and lat")
}

// Role is the part of one end: it decides which end writes first in each step.
type Role uint8

// The roles.
const (
	Client Role = 1
	Server Role = 2
)

// String returns the name of the role.
func (r Role) String() string {
	if r == Server {
		return "server"
	}
	return "client"
}

// parse reads one of some names, or returns an error with those that are allowed.
func parse[T ~uint8](given, name string, names []string, allowed string) (T, error) {
	if i := slices.Index(names, name); i >= 0 && name != "" {
		return T(i), nil
	}
	return 0, fmt.Errorf(allowed, given)
}
