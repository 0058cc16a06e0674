//go:build linux && amd64 && !race

package emu

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// words that a program prints when something is wrong, some of them with exit code 0.
var trouble = regexp.MustCompile(
	`(?i)invalid data|data mismatch|couldn't|failed|failure|unable|bogus|unknown|syndrom|error: [^0]|not permitted|leak`)

// check checks in the output of one end that it did everything it was told to, and nothing else.
func check(command []string, out string, client bool) error {
	i := slices.IndexFunc(command, func(s string) bool {
		return !strings.HasSuffix(s, "in-debian") && !slices.Contains(releases, s) && s != "stdbuf" && s != "-oL" &&
			s != "chroot" && filepath.Dir(s) != staticBin
	})
	program, args := filepath.Base(command[i]), command[i+1:]
	if program == "pingpong" {
		program, args = args[0]+"_pingpong", args[1:]
	}
	if m := trouble.FindString(out); m != "" {
		return fmt.Errorf("%s says %q", program, m)
	}
	number := func(flag string, other int) int {
		if j := slices.Index(args, flag); j >= 0 && j+1 < len(args) {
			other, _ = strconv.Atoi(args[j+1])
		}
		return other
	}
	want := func(texts ...string) error {
		for _, s := range texts {
			if !strings.Contains(out, s) {
				return fmt.Errorf("%s does not say %q", program, s)
			}
		}
		return nil
	}
	switch {
	case strings.HasSuffix(program, "xsrq_pingpong"):
		return want("success")
	case program == "raw_pingpong":
		return want(fmt.Sprintf("%d frames of %d bytes each way", number("-n", 0), number("-s", 0)))
	case strings.HasSuffix(program, "_pingpong"):
		n, size := number("-n", 1000), 4096
		if strings.Contains(program, "ud_") {
			size = 2048
		}
		texts := []string{fmt.Sprintf("%d bytes in ", number("-s", size)*n*2), fmt.Sprintf("%d iters in ", n)}
		if !strings.HasPrefix(program, "ibv_") && slices.Contains(args, "-c") {
			texts = append(texts, "every byte as it should be")
		}
		return want(texts...)
	case strings.HasPrefix(program, "raw_ethernet_"):
		return perftest(program, args, out, client, number)
	case strings.HasPrefix(program, "ib_") || program == "rdmaperf":
		return perftest(program, args, out, client, number)
	}
	messages := number("-c", 1) * number("-C", 0)
	if s, ok := map[string]string{
		"ucmatose": fmt.Sprintf("%d messages sent and as many received", messages),
		"udaddy":   fmt.Sprintf("%d datagrams sent and as many received", messages),
		"mckey":    fmt.Sprintf("%d datagrams %s", messages, map[bool]string{true: "sent", false: "received"}[client]),
	}[program]; ok && own(command) {
		return want(s)
	}
	if s, ok := map[string]string{
		"rping": "", "ucmatose": "return status 0", "udaddy": "return status 0", "mckey": "return status 0",
		"rdma_server": "rdma_server: end 0", "rdma_client": "rdma_client: end 0",
		"rdma_xserver": "rdma_xserver: end 0", "rdma_xclient": "rdma_xclient: end 0",
		"cmtime": "", "rstream": "", "riostream": "", "udpong": "",
	}[program]; ok {
		if program == "rping" && slices.Contains(args, "-v") &&
			strings.Count(out, "ping data: rdma-ping-") != number("-C", 0) {
			return fmt.Errorf("rping: %d lines of ping data, want %d", strings.Count(out, "ping data: rdma-ping-"),
				number("-C", 0))
		}
		return want(s)
	}
	return fmt.Errorf("nobody knows what %s should print", program)
}

// A standard deviation may be "-nan": perftest's sum of squares overflows if a sample took a second. A percentile is
// "-" if there are too few samples.
var resultLine = regexp.MustCompile(
	`(?m)^[ \t]*(\d+)[ \t]+(\d+)[ \t]+([0-9.]+)[ \t]+([0-9.]+)((?:[ \t]+(?:[0-9.]+|-(?:nan)?))*)[ \t]*$`)

// perftest checks that the client's table has every size, with all messages and with figures above 0.
func perftest(program string, args []string, out string, client bool, number func(string, int) int) error {
	if !client {
		return nil // it prints, or does not, as the test goes
	}
	var sizes []int
	for _, m := range resultLine.FindAllStringSubmatch(out, -1) {
		size, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[2])
		if told := number("-n", 0); told != 0 && n != told && n != told*number("-q", 1) && n != 2*told*number("-q", 1) {
			return fmt.Errorf("%s: %d iterations, want %d: %s", program, n, told, m[0])
		}
		last := strings.Fields(m[5])
		rate := m[4]
		if strings.HasSuffix(program, "_bw") && len(last) > 0 {
			rate = last[0] // a few bytes are 0.00 MB/s
		}
		if v, _ := strconv.ParseFloat(rate, 64); v <= 0 {
			return fmt.Errorf("%s: nothing measured: %s", program, m[0])
		}
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	want := 1
	if slices.Contains(args, "-a") {
		if want = 23; slices.Contains(args, "UD") {
			want = 10 // up to the MTU
		}
	}
	if i := slices.Index(args, "--sizes"); i >= 0 {
		want = strings.Count(args[i+1], ",") + 1
	}
	if len(sizes) != want {
		return fmt.Errorf("%s: results for %d sizes, want %d", program, len(sizes), want)
	}
	if s := number("-s", 0); s != 0 && sizes[0] != s {
		return fmt.Errorf("%s: result for %d bytes, want %d", program, sizes[0], s)
	}
	return nil
}
