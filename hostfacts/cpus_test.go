package hostfacts

import (
	"strings"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	for s, want := range map[string]string{"3": "3", "2-5,8": "2-5,8", "8,0-2,1": "0-2,8", "7\n": "7",
		"0-16383": "0-16383"} {
		got, err := ParseCPUs(s)
		if err != nil || FormatCPUs(got) != want {
			t.Errorf("%q: %v, %v, want %s", s, FormatCPUs(got), err, want)
		}
	}
	for _, s := range []string{"", ",", "1,", "-1", "1-", "5-2", "a", "0-99999999", "16384", "1;2", "0x1", " 1 2",
		strings.Repeat("0-16383,", 3) + "0"} {
		if got, err := ParseCPUs(s); err == nil || len(err.Error()) > 120 {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}
