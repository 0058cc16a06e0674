package sysfs

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber returns the number that a text is, in any base that has a prefix.
func parseNumber(s string) (int64, bool) {
	v, err := strconv.ParseInt(strings.TrimSpace(s), 0, 64)
	return v, err == nil
}

// parseRate converts "2.5 Gb/sec (1X SDR)" to bits per second; it returns 0 for other texts.
func parseRate(s string) int64 {
	num, rest, _ := strings.Cut(s, " ")
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || !(v > 0 && v < 1e6) || !strings.HasPrefix(rest, "Gb/sec") {
		return 0
	}
	return int64(math.Round(v * 1e9))
}

// isPCI reports whether s is a PCI address: domain:bus:device.function.
func isPCI(s string) bool {
	dom, rest, ok := strings.Cut(s, ":")
	if !ok || len(dom) < 4 || len(dom) > 8 || len(rest) != 7 || rest[2] != ':' || rest[5] != '.' {
		return false
	}
	return strings.Trim(dom+rest[:2]+rest[3:5]+rest[6:], "0123456789abcdefABCDEF") == ""
}
