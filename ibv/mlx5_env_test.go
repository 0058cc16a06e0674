package ibv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestOpenEnv: the values that an explanation names are accepted, and what lies beyond is not.
func TestOpenEnv(t *testing.T) {
	for _, page := range []int{4096, 65536} {
		for _, total := range []string{"", "x", "-3", "0", "1", "2", "3", "4", "5", "6", "16", "31", "33", "512", "513",
			" 7k"} {
			for _, low := range []string{"", "-1", "0", "1", "2", "5", "15", "16", "32", "511", "512"} {
				setEnv(t, envTotalUUARs, total)
				setEnv(t, envLowLatUUARs, low)
				nTotal, _ := envNumber(envTotalUUARs, 16)
				nLow, _ := envNumber(envLowLatUUARs, 4)
				err := explainOpenEnv(page)
				if uuarsOpen(nTotal, nLow, page) != (err == nil) {
					t.Errorf("pages of %d, total %q, low %q: %v", page, total, low, err)
				}
				var ae *ArgError
				var least, most int
				if !errors.As(err, &ae) {
					continue
				}
				if _, err := fmt.Sscanf(ae.Want, "%d to %d", &least, &most); err != nil {
					t.Fatal(err)
				}
				opens := func(n int) bool { return uuarsOpen(n, nLow, page) }
				switch {
				case strings.HasSuffix(ae.Arg, envLowLatUUARs):
					opens = func(n int) bool { return uuarsOpen(nTotal, n, page) }
				case strings.Contains(ae.Want, "without"):
					opens = func(n int) bool { return uuarsOpen(n, 4, page) && n > 5 }
				}
				if !opens(least) || !opens(most) || opens(least-1) || opens(most+1) {
					t.Errorf("pages of %d, total %q, low %q: %v", page, total, low, err)
				}
			}
		}
	}
}

// TestRXE_OpenEnv compares the rule with libmlx5, in a process for each row: what it refuses is named.
func TestRXE_OpenEnv(t *testing.T) {
	const child = "PUREVERBS_TEST_ENV_CHILD"
	rxe := testutil.NeedLogic(t)
	if os.Getenv(child) != "" {
		dev, err := Open(rxe.Dev[0])
		total, _ := envNumber(envTotalUUARs, 16)
		low, _ := envNumber(envLowLatUUARs, 4)
		if opens := soft(rxe) || uuarsOpen(total, low, os.Getpagesize()); opens != (err == nil) {
			t.Errorf("opens %v: %v", opens, err)
		}
		var ae *ArgError
		if err != nil && (!errors.As(err, &ae) || !strings.Contains(err.Error(), "UUARS")) {
			t.Errorf("open: %v", err)
		}
		if err != nil {
			return
		}
		defer dev.Close()
		cq, err := dev.CreateCQ(4, nil)
		if bad := !soft(rxe) && checkCQEnv() != nil; bad != errors.As(err, &ae) || bad != (err != nil) {
			t.Errorf("create a CQ: %v", err)
		}
		if err == nil {
			ok(t, cq.Close())
		}
		return
	}
	for _, env := range [][]string{{"MLX5_TOTAL_UUARS=2"}, {"MLX5_TOTAL_UUARS=4"}, {"MLX5_TOTAL_UUARS=5"},
		{"MLX5_TOTAL_UUARS=0"}, {"MLX5_TOTAL_UUARS=x"}, {"MLX5_TOTAL_UUARS=512"}, {"MLX5_TOTAL_UUARS=513"},
		{"MLX5_TOTAL_UUARS=2", "MLX5_NUM_LOW_LAT_UUARS=1"}, {"MLX5_TOTAL_UUARS=2", "MLX5_NUM_LOW_LAT_UUARS=2"},
		{"MLX5_NUM_LOW_LAT_UUARS=15"}, {"MLX5_NUM_LOW_LAT_UUARS=16"}, {"MLX5_NUM_LOW_LAT_UUARS=-1"},
		{"MLX5_CQE_SIZE=32"}, {"MLX5_CQE_SIZE=128"}} {
		t.Run(strings.Join(env, ","), func(t *testing.T) {
			c := exec.Command(must(os.Executable())(t), "-test.run=^TestRXE_OpenEnv$", "-test.v", "-test.count=1")
			c.Env = append(append(os.Environ(), child+"=1"), env...)
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestRXE_OpenEnv") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestCQEnv(t *testing.T) {
	for v, bad := range map[string]bool{"": false, "64": false, "128": false, " 64 bytes": false, "32": true,
		"x": true} {
		setEnv(t, envCQESize, v)
		if err := checkCQEnv(); (err != nil) != bad || bad && !strings.Contains(err.Error(), fmt.Sprintf("%q", v)) {
			t.Errorf("%q: %v", v, err)
		}
	}
}

// TestFake_Signatures: refusals that the environment may have caused.
func TestFake_Signatures(t *testing.T) {
	set(t, "vendor_id", vendorMellanox)
	set(t, "vendor_part_id", partConnectIB)
	s := fakeSide(t, nil)
	for _, c := range []struct {
		call, env string
		do        func() error
	}{
		{"ibv_create_qp", "MLX5_QP_SIGNATURE", func() error { _, err := s.pd.CreateQP(s.cq, s.cq, nil); return err }},
		{"ibv_create_srq", "MLX5_SRQ_SIGNATURE", func() error { _, err := s.pd.CreateSRQ(nil); return err }},
		{"create_wq", "MLX5_RWQ_SIGNATURE", func() error { _, err := s.pd.CreateWQ(s.cq, nil); return err }},
	} {
		failing(t, c.call, syscall.EINVAL)
		if err := c.do(); err == nil || strings.Contains(err.Error(), "SIGNATURE") {
			t.Errorf("%s: %v", c.call, err)
		}
		t.Setenv(c.env, "1")
		wantErr(t, c.do(), syscall.EINVAL, c.env+"=1", "unset it")
		unset(t, "fail."+c.call)
	}
}

// setEnv sets a variable, or unsets it for "".
func setEnv(t *testing.T, name, value string) {
	t.Setenv(name, value)
	if value == "" {
		os.Unsetenv(name)
	}
}
