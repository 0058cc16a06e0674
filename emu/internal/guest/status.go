//go:build linux

package guest

import (
	"os"
	"strconv"
	"strings"
)

// Status is what /proc has in a file of lines "Key:\tvalue", as that of a thread's state is.
type Status string

// StatusOf reads the state of a thread; that of one that is gone says nothing.
func StatusOf(tid int) Status {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status") // of a process with many groups it is long
	return Status(b)
}

func (s Status) words(key string) []string {
	for line := range strings.Lines(string(s)) {
		if rest, found := strings.CutPrefix(line, key+":"); found {
			return strings.Fields(rest)
		}
	}
	return nil
}

// Number returns the first number behind a key.
func (s Status) Number(key string, base int) (n uint64, ok bool) {
	if w := s.words(key); len(w) > 0 {
		n, err := strconv.ParseUint(w[0], base, 64)
		return n, err == nil
	}
	return 0, false
}
