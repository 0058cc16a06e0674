package doctor

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// cause is why a device file cannot be used.
type cause uint8

const (
	fileMissing cause = iota
	fileMode
	fileMount
	fileGroup
	fileDriver
	filePolicy
	fileOther
)

// A remedy is a command for a host, and one for a container. PATH, DIR and MODULE are replaced.
type remedy struct{ text, host, container string }

const giveDevice = "give the container the device: --device=PATH, or a resource of the RDMA device plugin"

var remedies = map[cause]remedy{
	fileMissing: {"the device file is missing", "modprobe MODULE; udevadm trigger    # udev or devtmpfs makes it",
		giveDevice},
	fileMode: {"this user may not open the device file",
		"chmod 666 PATH    # for good: KERNEL==\"NAME\", MODE=\"0666\" in /etc/udev/rules.d",
		"chmod 666 PATH    # on the host; or run the container as a user who may"},
	fileMount: {"the device file is on a file system that is mounted with nodev", "findmnt -T PATH    # use /dev",
		giveDevice + "; a bind mount of its folder has nodev"},
	fileGroup: {"the devices control group forbids the device file",
		"systemctl edit UNIT    # DeviceAllow=PATH rw", giveDevice},
	fileDriver: {"the device file has no driver behind it", "rdma link    # the device was removed, or is being reset",
		"restart the container    # the device was removed, or is being reset"},
	filePolicy: {"this user may not open the device file, although its mode permits it",
		"ausearch -m avc -ts recent    # SELinux; AppArmor: dmesg",
		"ausearch -m avc -ts recent    # SELinux on the host; AppArmor: dmesg"},
	fileOther: {"the device file cannot be opened", "ls -l PATH; dmesg | tail", "ls -l PATH"},
}

// fileCause returns why a device file cannot be opened. The mode gives EACCES, the devices control group EPERM.
func (x *examination) fileCause(path string, err error) cause {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fileMissing
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return fileDriver
	case errors.Is(err, syscall.EPERM):
		return fileGroup
	case !errors.Is(err, fs.ErrPermission):
		return fileOther
	case x.nodev(path):
		return fileMount
	}
	if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o006 == 0o006 {
		return filePolicy
	}
	return fileMode
}

// nodev reports whether the file system of a path takes no device files.
func (x *examination) nodev(path string) bool {
	at, options := "", ""
	for line := range strings.Lines(x.file("self/mountinfo")) {
		w := strings.Fields(line)
		if len(w) < 6 {
			continue
		}
		if dir := strings.TrimSuffix(w[4], "/") + "/"; strings.HasPrefix(path, dir) && len(dir) >= len(at) {
			at, options = dir, w[5]
		}
	}
	return strings.Contains(","+options+",", ",nodev,")
}

// unusable returns the finding of a device file that cannot be opened.
func (x *examination) unusable(subject, check, path, module string, err error) Finding {
	r := remedies[x.fileCause(path, err)]
	name := strings.TrimRight(filepath.Base(path), "0123456789")
	if name != filepath.Base(path) {
		name += "*"
	}
	f := Finding{Severity: Error, Subject: subject, Check: check, Text: r.text, Evidence: err.Error(), Remedy: r.host}
	if x.Container != "" {
		f.Remedy = r.container
		f.Evidence += "; a container (" + x.Container + ")"
	}
	f.Remedy = strings.NewReplacer("PATH", path, "NAME", name, "MODULE", module).Replace(f.Remedy)
	return f
}

// withheld returns the devices that this container was not given, if it was given others.
func (x *examination) withheld() map[string]error {
	if x.Container == "" {
		return nil
	}
	devs, _ := x.Sys.Devices()
	missing, given := map[string]error{}, 0
	for _, d := range devs {
		if d.Uverbs == "" {
			continue
		}
		path := filepath.Join(x.Dev, "infiniband", d.Uverbs)
		err := x.Access(path)
		if err == nil {
			given++
		} else if c := x.fileCause(path, err); c == fileMissing || c == fileGroup {
			missing[d.Name] = err
		}
	}
	if given == 0 {
		return nil
	}
	return missing
}

// install returns the command that installs libibverbs and its drivers on this distribution.
func (x *examination) install() string {
	return cmp.Or(x.Libraries.Install, "install libibverbs and its drivers")
}
