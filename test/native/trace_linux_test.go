//go:build linux && amd64 && !race

package native

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// line is a command in the emulator's trace.
type line struct {
	Kind, Name, Errno string
	Req, Resp         map[string]any
}

// readTrace returns the commands of a trace.
func readTrace(t *testing.T, file string) (list []line) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err == nil && (l.Kind == "cmd" || l.Kind == "cm") {
			list = append(list, l)
		}
	}
	return list
}
