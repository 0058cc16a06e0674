package testutil

import (
	"os"
	"strings"
)

// Processor returns the name of this machine's processor, to print next to figures.
func Processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	name := map[string]string{}
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); name[key] == "" {
			name[key] = strings.TrimSpace(value)
		}
	}
	if name["model name"] == "" {
		return "unknown processor"
	}
	return name["model name"] + ", family " + name["cpu family"] + " model " + name["model"]
}
