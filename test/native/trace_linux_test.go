//go:build linux && amd64 && !race

package native

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// line is a line of the emulator's trace.
type line struct {
	Kind, Name string
	Req        map[string]any

	all map[string]any
}

// readTrace returns the lines of a trace that are of the kinds.
func readTrace(t *testing.T, file string, kinds ...string) (list []line) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wanted := make(map[string]bool)
	for _, k := range kinds {
		wanted[k] = true
	}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l line
		if json.Unmarshal(s.Bytes(), &l) != nil || !wanted[l.Kind] {
			continue
		}
		if err := json.Unmarshal(s.Bytes(), &l.all); err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
