package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/ibv"
)

func TestParse(t *testing.T) {
	rc := options{kind: "rc", tcpPort: 18515, port: 1, gid: ibv.BestGID, size: 4096, mtu: ibv.MTU1024, qps: 1,
		receives: 32, iters: 1000, clients: 1, timeout: 30 * time.Second}
	ud := rc
	ud.kind, ud.size = "ud", 1024
	xsrq := rc
	xsrq.kind, xsrq.receives, xsrq.iters, xsrq.clients, xsrq.file = "xsrq", 1, 5, 3, "/tmp/xrc_domain"
	all := options{kind: "srq", host: "host", tcpPort: 7, device: "rxe1", port: 2, gid: 3, size: 64, mtu: ibv.MTU4096,
		qps: 4, receives: 8, iters: 9, sl: 5, events: true, check: true, clients: 1, timeout: time.Second}
	for args, want := range map[string]options{
		"rc":        rc,
		"ud":        ud,
		"xsrq -c 3": xsrq,
		"srq -p 7 -d rxe1 -i 2 -s 64 -m 4096 -q 4 -r 8 -n 9 -l 5 -e -g 3 -c --timeout 1s host": all,
		"srq -p7 -drxe1 -i2 -s64 -m4096 -q4 -r8 -n9 -l5 -ecg3 --timeout=1s host":               all,
		"srq host --port 7 --ib-dev rxe1 --ib-port 2 --size 64 --mtu 4096 --num-qp 4 --rx-depth 8 --iters 9 --sl 5 " +
			"--events --gid-idx 3 --chk --timeout 1s": all,
	} {
		got, err := parse(strings.Fields(args))
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if d := cmp.Diff(want, *got, cmp.AllowUnexported(options{})); d != "" {
			t.Errorf("%q (-want +got)\n%s", args, d)
		}
	}
}

func TestParse_Wrong(t *testing.T) {
	for args, want := range map[string]string{
		"":                    `type "": want rc, uc, ud, srq or xsrq`,
		"tcp":                 `type "tcp": want rc`,
		"-d rxe0":             `type "": want rc`,
		"rc -p 0":             "-p 0: want 1 to 65535",
		"rc -i 0":             "-i 0: want 1 to 255",
		"rc -s 0":             "-s 0: want 1 to",
		"rc -s 4294967296":    "-s 4294967296",
		"rc -m 1000":          "-m 1000: want 256, 512",
		"rc -m 8192":          "-m 8192",
		"srq -q 0":            "-q 0: want 1 to 255",
		"srq -q 256":          "-q 256: want 1 to 255",
		"srq -q 8 -r 7":       "-r 7: want a receive for each of 8",
		"rc -n 0":             "-n 0",
		"rc -l 16":            "-l 16: want 0 to 15",
		"rc -g -2":            "-g -2",
		"rc --timeout 0s":     "--timeout 0s: want more than 0",
		"rc a b":              "2 hosts: want at most one",
		"rc -p 0 -s 0":        "-s 0",
		"xsrq -c 2 host":      "-c is for a server",
		"xsrq --timeout -1ms": "--timeout -1ms",
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
