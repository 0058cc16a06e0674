// Package compare parses the output of our rdmaperf and of the stock perftest, to compare the two.
package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Try measures once, and again if there is no finite value: under emulation perftest sometimes prints inf.
func Try(measure func() (float64, error)) (float64, error) {
	var errs []error
	for range 3 {
		v, err := measure()
		if err == nil && v > 0 && !math.IsInf(v, 0) && !math.IsNaN(v) {
			return v, nil
		}
		errs = append(errs, fmt.Errorf("value %v: %w", v, err))
	}
	return 0, fmt.Errorf("no value in three runs: %w", errors.Join(errs...))
}

// WaitListen waits until something listens on the port that follows -p. It looks in /proc, because the server would
// take a trial connection for its client.
func WaitListen(ctx context.Context, args []string) error {
	port, err := strconv.Atoi(args[slices.Index(args, "-p")+1])
	if err != nil {
		return err
	}
	want := fmt.Sprintf(":%04X ", port)
	for ctx.Err() == nil {
		for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			for _, line := range strings.Split(string(b), "\n") {
				// local address, remote address, state 0A: listening
				if i := strings.Index(line, want); i > 0 && strings.Contains(line[i:], ":0000 0A ") {
					return nil
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("nobody listens on port %d: %w", port, ctx.Err())
}

// FromTable returns a column of the row for size in perftest's table.
func FromTable(out []byte, size, column int) (float64, error) {
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Fields(line)
		if len(f) > column && f[0] == strconv.Itoa(size) {
			return strconv.ParseFloat(f[column], 64)
		}
	}
	return 0, fmt.Errorf("no row for %d bytes in:\n%s", size, out)
}

// FromJSON returns the number under key in the first result of our JSON.
func FromJSON(out []byte, key string) (float64, error) {
	var report struct {
		Results []map[string]any `json:"results"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, fmt.Errorf("%w in:\n%s", err, out)
	}
	if len(report.Results) == 0 {
		return 0, fmt.Errorf("no results in:\n%s", out)
	}
	v, ok := report.Results[0][key].(float64)
	if !ok {
		return 0, fmt.Errorf("no number %s in:\n%s", key, out)
	}
	return v, nil
}

// Median returns the middle value, or the mean of the two middle ones.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
