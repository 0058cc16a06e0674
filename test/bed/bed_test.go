// Package bed tests the SoftRoCE VM itself, with stock tools on both sides, so that a fault of the VM is not mistaken
// for one of ours.
package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// pair runs a stock server on rxe0 and its client on rxe1 and returns the client's output. A pair that races against
// itself and waits for ever, as perftest does when a client comes while its server begins to listen, is tried again.
func pair(t *testing.T, vm testutil.RXE, tool string, args ...string) string {
	t.Helper()
	path := testutil.NeedProgram(t, tool)
	for _, limit := range []time.Duration{testutil.Patience / 8, testutil.Patience / 4, testutil.Patience} {
		out, err := tryPair(t, vm, path, args, limit)
		if err == nil {
			return out
		}
		if limit == testutil.Patience || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: %v", tool, err)
		}
		t.Logf("once more: %s: %v", tool, err)
	}
	panic("not reached")
}

func tryPair(t *testing.T, vm testutil.RXE, path string, args []string, limit time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var serverOut strings.Builder
	server := exec.CommandContext(ctx, path, append([]string{"-d", vm.Dev[0]}, args...)...)
	server.Stdout, server.Stderr = &serverOut, &serverOut
	if err := server.Start(); err != nil {
		return "", err
	}
	var out []byte
	var err error
	for ctx.Err() == nil { // until the server listens
		time.Sleep(100 * time.Millisecond)
		out, err = exec.CommandContext(ctx, path, append(append([]string{"-d", vm.Dev[1]}, args...),
			vm.IP[0])...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "onnect") {
			break
		}
	}
	if err != nil {
		err = errors.Join(err, ctx.Err())
		cancel()
		_ = server.Wait()
		return "", fmt.Errorf("%w\nclient:\n%s\nserver:\n%s", err, out, serverOut.String())
	}
	if err := server.Wait(); err != nil {
		return "", fmt.Errorf("server: %w\n%s", errors.Join(err, ctx.Err()), serverOut.String())
	}
	return string(out), nil
}

func sh(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func waitState(t *testing.T, dev, want string) {
	t.Helper()
	path := "/sys/class/infiniband/" + dev + "/ports/1/state"
	testutil.Eventually(t, dev+" is "+want, func() bool { return strings.Contains(read(t, path), want) })
}

// TestRXEBed_Packets checks that packets between the two devices cross the wire and not a loopback.
func TestRXEBed_Packets(t *testing.T) {
	vm := testutil.NeedRXE(t)
	tx := "/sys/class/net/" + vm.Net[1] + "/statistics/tx_packets"
	before := read(t, tx)
	if out := pair(t, vm, "ibv_rc_pingpong", "-g", "1", "-n", "200"); !strings.Contains(out, "200 iters") {
		t.Errorf("unexpected output:\n%s", out)
	}
	if after := read(t, tx); after == before {
		t.Errorf("%s sent no packet: still %s", vm.Net[1], after)
	}
}

func TestRXEBed_Perftest(t *testing.T) {
	vm := testutil.NeedRXE(t)
	if out := pair(t, vm, "ib_write_bw", "-x", "1", "-n", "50", "-s", "4096"); !strings.Contains(out, "4096") {
		t.Errorf("unexpected output:\n%s", out)
	}
}

func TestRXEBed_MTU(t *testing.T) {
	vm := testutil.NeedRXE(t)
	for _, d := range vm.Dev {
		out := sh(t, testutil.NeedProgram(t, "ibv_devinfo")+" -d "+d)
		if !strings.Contains(out, "active_mtu:		4096") {
			t.Errorf("%s: active_mtu is not 4096:\n%s", d, out)
		}
	}
}

func TestRXEBed_LinkDownUp(t *testing.T) {
	vm := testutil.NeedRXE(t)
	waitState(t, vm.Dev[0], "ACTIVE")
	sh(t, "/bin/ip link set "+vm.Net[0]+" down")
	waitState(t, vm.Dev[0], "DOWN")
	sh(t, "rdma-net")
	waitState(t, vm.Dev[0], "ACTIVE")
	pair(t, vm, "ibv_rc_pingpong", "-g", "1", "-n", "20")
}

// TestRXEBed_Loss checks that packets can be dropped. Busybox has a tc without netem, with which tests of loss would
// pass without any loss.
func TestRXEBed_Loss(t *testing.T) {
	vm := testutil.NeedRXE(t)
	sh(t, "/bin/tc qdisc add dev "+vm.Net[0]+" root netem loss 2%")
	pair(t, vm, "ibv_rc_pingpong", "-g", "1", "-n", "500")
	stats := sh(t, "/bin/tc -s qdisc show dev "+vm.Net[0])
	sh(t, "/bin/tc qdisc del dev "+vm.Net[0]+" root")
	if !strings.Contains(stats, "netem") || strings.Contains(stats, "dropped 0,") {
		t.Errorf("netem dropped nothing:\n%s", stats)
	}
}

func TestRXEBed_HugePages(t *testing.T) {
	testutil.NeedRXE(t)
	if out := sh(t, "grep HugePages_Total /proc/meminfo"); strings.HasSuffix(out, " 0") {
		t.Error(out)
	}
}
