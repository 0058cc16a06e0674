package wire

import "fmt"

// Verb is the operation of a test.
type Verb uint8

// The verbs.
const (
	Send  Verb = 1
	Write Verb = 2
	Read  Verb = 3
)

// String returns the name as the command line has it.
func (v Verb) String() string {
	switch v {
	case Send:
		return "send"
	case Write:
		return "write"
	case Read:
		return "read"
	}
	return fmt.Sprintf("Verb(%d)", uint8(v))
}

// ParseVerb reads a name of the command line.
func ParseVerb(name string) (Verb, error) {
	for _, v := range []Verb{Write, Read, Send} {
		if name == v.String() {
			return v, nil
		}
	}
	return 0, fmt.Errorf("verb %q, allowed are write, read and send", name)
}

// Metric is what a test measures.
type Metric uint8

// The metrics.
const (
	Bandwidth Metric = 1
	Latency   Metric = 2
)

// String returns the name as the command line has it.
func (m Metric) String() string {
	switch m {
	case Bandwidth:
		return "bw"
	case Latency:
		return "lat"
	}
	return fmt.Sprintf("Metric(%d)", uint8(m))
}

// ParseMetric reads a name of the command line.
func ParseMetric(name string) (Metric, error) {
	for _, m := range []Metric{Bandwidth, Latency} {
		if name == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("metric %q, allowed are bw and lat", name)
}
