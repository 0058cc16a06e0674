package starve

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Contents of files of real systems.
const (
	stat = "cpu  2575385 437618 1230022 576400 4451 0 3493 3338 0 0\n" +
		"cpu0 1290113 216029 610097 295176 1251 0 631 1682 0 0\nintr 1 2 3\nctxt 4\n"
	statGuest = "cpu  10132153 290696 3084719 46828483 16683 0 25195 1000 175628 0\ncpu0 1 2 3\n"
	// Linux 6.18, version 1 and 2 at the same time.
	hybrid = "9:name=systemd:/\n8:pids:/\n4:memory:/job/1\n2:cpuacct:/\n1:cpu:/\n0::/\n"
	mounts = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n" +
		"33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	// Debian 12 with systemd, a user's shell.
	systemd       = "0::/user.slice/user-1000.slice/session-3.scope\n"
	systemdMounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 " +
		"rw,nsdelegate,memory_recursiveprot\n"
	// A container of Docker on CentOS 7: the mount shows its part alone.
	docker       = "11:cpuacct,cpu:/docker/0f3a\n1:name=systemd:/docker/0f3a\n"
	dockerMounts = "612 611 0:25 /docker/0f3a /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:11 - cgroup cgroup " +
		"rw,cpuacct,cpu\n"
)

func TestParsers(t *testing.T) {
	for text, want := range map[string]time.Duration{"538333128 221773 37\n": 221773, "0 0 1\n": 0, "": -1, "1 2": -1,
		"1 -2 3": -1, "1 x 3": -1, "1 99999999999999999999 3": -1} {
		if d, ok := runDelay(text); ok != (want >= 0) || ok && d != want {
			t.Errorf("schedstat %q: %d, %v", text, d, ok)
		}
	}
	for text, want := range map[string][2]float64{
		stat:      {3338, 2575385 + 437618 + 1230022 + 576400 + 4451 + 3493 + 3338},
		statGuest: {1000, 10132153 + 290696 + 3084719 + 46828483 + 16683 + 25195 + 1000}, "": {}, "cpu 1 2 3": {},
		"cpu  1 2 3 4 5 6 7 x": {}, "intr 1 2 3 4 5 6 7 8 9": {}} {
		if steal, all := ticks(text); steal != want[0] || all != want[1] {
			t.Errorf("stat %.20q: %v of %v, want %v", text, steal, all, want)
		}
	}
	for text, want := range map[string]time.Duration{
		"nr_periods 10\nnr_throttled 4\nthrottled_time 123456789\nnr_bursts 0\n":              123456789,
		"usage_usec 9\nuser_usec 5\nnr_periods 7\nnr_throttled 2\nthrottled_usec 1500\nx 1\n": 1500 * time.Microsecond,
		"usage_usec 9\nuser_usec 5\n": 0, "": 0, "throttled_usec -5": 0, "throttled_time x": 0} {
		if d := throttled(text); d != want {
			t.Errorf("cpu.stat %.20q: %v, want %v", text, d, want)
		}
	}
	for _, tc := range []struct {
		name, cgroup, mounts string
		want                 []string
	}{
		{"hybrid", hybrid, mounts, []string{"/sys/fs/cgroup/cpu/cpu.stat"}},
		{"systemd", systemd, systemdMounts, []string{
			"/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/cpu.stat",
			"/sys/fs/cgroup/user.slice/user-1000.slice/cpu.stat", "/sys/fs/cgroup/user.slice/cpu.stat",
			"/sys/fs/cgroup/cpu.stat"}},
		{"docker", docker, dockerMounts, []string{"/sys/fs/cgroup/cpu,cpuacct/cpu.stat"}},
		{"namespace", "0::/\n", systemdMounts, []string{"/sys/fs/cgroup/cpu.stat"}},
		{"above the namespace", "0::/../x\n", systemdMounts, []string{"/sys/fs/cgroup/x/cpu.stat",
			"/sys/fs/cgroup/cpu.stat"}},
		{"not mounted", systemd, "1 2 3\n", nil},
		{"none", "", mounts, nil},
	} {
		if got := statFiles(tc.cgroup, tc.mounts); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestShare(t *testing.T) {
	w := &Waits{Elapsed: 2, RunDelay: 0.1, Steal: 0.06, Throttled: 0.2}
	if s := w.Share(); s < 0.1799 || s > 0.1801 {
		t.Errorf("share %v", s)
	}
	if s := w.String(); s != "run delay 5 %, steal 3 %, throttled 10 % of the time" {
		t.Error(s)
	}
	var none *Waits
	if none.Share() != 0 || none.String() != "not known" || none.Check() != nil || (&Waits{RunDelay: 1}).Share() != 0 {
		t.Error("unknown waits have a share")
	}
	if Worse(none, w) != w || Worse(w, none) != w || Worse(w, &Waits{Elapsed: 1}) != w {
		t.Error("not the longer waits")
	}
	nan := 0.0
	nan /= nan
	for _, bad := range []Waits{{Elapsed: -1}, {RunDelay: nan}, {Steal: 1e300}} {
		if bad.Check() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}

// TestMeter: threads that have to share a CPU wait for it.
func TestMeter(t *testing.T) {
	if _, ok := runDelay(read("/proc/self/schedstat")); !ok {
		t.Skip("is about the kernel: this one has no run delays")
	}
	m := New(Self)
	var over atomic.Bool
	defer over.Store(true)
	for range 2*runtime.NumCPU() + 2 {
		go func() {
			runtime.LockOSThread()
			for !over.Load() {
			}
		}()
	}
	old := runtime.GOMAXPROCS(2*runtime.NumCPU() + 4)
	defer runtime.GOMAXPROCS(old)
	testutil.Eventually(t, "threads that wait for CPUs are starved", func() bool {
		w := m.Waits()
		return w.Share() > Limit
	})
}
