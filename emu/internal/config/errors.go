package config

import (
	"maps"
	"slices"
	"strings"
)

// ValueError reports what is wrong with one value of a description.
type ValueError struct {
	Device string // "" if it concerns none
	Key    string
	Value  string
	Err    error // what would be right
}

// Error names the device, the value and the way out.
func (e *ValueError) Error() string {
	s := e.Key
	if e.Value != "" {
		s += "=" + clip(e.Value)
	}
	if e.Device != "" {
		s = "device " + e.Device + ": " + s
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns what would be right.
func (e *ValueError) Unwrap() error { return e.Err }

// fold makes names comparable: "ConnectX-6 Dx" is "connectx6dx".
func fold(s string) string {
	return strings.NewReplacer("-", "", " ", "", "_", "", "/", "").Replace(strings.ToLower(s))
}

// clip keeps a value short enough for a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

func list[E enum](names map[E]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(names)) {
		out = append(out, names[k])
	}
	return strings.Join(out, ", ")
}
