//go:build linux

package guest

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/await"
)

func TestRights(t *testing.T) {
	own, err := RightsOf(unix.Getpid())
	if err != nil || own.UID != os.Geteuid() || own.RGID != os.Getgid() {
		t.Fatalf("%+v, %v", own, err)
	}
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: as root, make test-unit runs it: it takes root to have other rights")
	}
	if err := os.Chmod(t.TempDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		argv   []string
		attr   syscall.SysProcAttr
		uid    int
		groups []int
		want   error
	}{
		"root": {[]string{"sleep", "60"}, syscall.SysProcAttr{}, 0, own.Groups, nil},
		"nobody": {[]string{"sleep", "60"},
			syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{7, 5}}}, 65534,
			[]int{5, 7}, unix.EACCES},
		"powerless root": {[]string{"setpriv", "--inh-caps=-all", "--bounding-set=-all", "sleep", "60"},
			syscall.SysProcAttr{}, 0, own.Groups, nil},
		"root of its own": {[]string{"sleep", "60"}, syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}, 0,
			own.Groups, nil},
		"nobody's own one": {[]string{"unshare", "-U", "sleep", "60"},
			syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, 65534, nil, unix.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(tt.argv[0], tt.argv[1:]...)
			c.SysProcAttr = &tt.attr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = c.Process.Kill()
				_ = c.Wait()
			}()
			await.Eventually(t, "it has become what it is to be", func() bool {
				b, _ := os.ReadFile(procPath(c.Process.Pid, "comm"))
				return string(b) == "sleep\n"
			})
			r, err := RightsOf(c.Process.Pid)
			if err != nil || r.UID != tt.uid || !slices.Equal(r.Groups, tt.groups) {
				t.Fatalf("%+v, %v; want user %d of groups %v", r, err, tt.uid, tt.groups)
			}
			var got error
			var after Rights
			if err := r.Do(func() {
				var f int
				if f, got = unix.Open(secret, unix.O_RDONLY|unix.O_CLOEXEC, 0); got == nil {
					unix.Close(f)
				}
				after, _ = RightsOf(unix.Gettid())
			}); err != nil {
				t.Fatal(err)
			}
			if !errors.Is(got, tt.want) {
				t.Errorf("a file of root's: %v, want %v", got, tt.want)
			}
			if after.UID != r.UID || !slices.Equal(after.Groups, r.Groups) || after.Caps&^r.Caps != 0 {
				t.Errorf("took on %+v, want %+v", after, r)
			}
		})
	}
	if now, err := RightsOf(unix.Getpid()); err != nil || !now.same(own) {
		t.Errorf("this process is now %+v, %v; it was %+v", now, err, own)
	}
	if _, err := RightsOf(1 << 30); err != ErrGone {
		t.Errorf("nobody's rights: %v", err)
	}
}
