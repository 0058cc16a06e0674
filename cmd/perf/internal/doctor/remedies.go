package doctor

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/internal/provider"
)

// A remedy is a command for a host, and one for a container. PATH, DIR and MODULE are replaced.
type remedy struct{ text, host, container string }

const giveDevice = "give the container the device: --device=PATH, or a resource of the RDMA device plugin"

var remedies = map[provider.FileCause]remedy{
	provider.FileMissing: {"the device file is missing",
		"modprobe MODULE; udevadm trigger    # udev or devtmpfs makes it", giveDevice},
	provider.FileMode: {"this user may not open the device file",
		"chmod 666 PATH    # for good: KERNEL==\"NAME\", MODE=\"0666\" in /etc/udev/rules.d",
		"chmod 666 PATH    # on the host; or run the container as a user who may"},
	provider.FileMount: {"the device file is on a file system that is mounted with nodev",
		"findmnt -T PATH    # use /dev", giveDevice + "; a bind mount of its folder has nodev"},
	provider.FileGroup: {"the devices control group forbids the device file",
		"systemctl edit UNIT    # DeviceAllow=PATH rw", giveDevice},
	provider.FileDriver: {"the device file has no driver behind it",
		"rdma link    # the device was removed, or is being reset",
		"restart the container    # the device was removed, or is being reset"},
	provider.FilePolicy: {"this user may not open the device file, although its mode permits it",
		"ausearch -m avc -ts recent    # SELinux; AppArmor: dmesg",
		"ausearch -m avc -ts recent    # SELinux on the host; AppArmor: dmesg"},
	provider.FileOther: {"the device file cannot be opened", "ls -l PATH; dmesg | tail", "ls -l PATH"},
}

// fileCause returns why a device file cannot be opened.
func (x *examination) fileCause(path string, err error) provider.FileCause {
	var mode fs.FileMode
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode()
	}
	mounts, _ := os.ReadFile(x.Facts.ProcPath("self", "mountinfo"))
	return provider.Cause(string(mounts), path, mode, err)
}

// unusable returns the finding of a device file that cannot be opened.
func (x *examination) unusable(subject, check, path, module string, err error) Finding {
	r := remedies[x.fileCause(path, err)]
	name := strings.TrimRight(filepath.Base(path), "0123456789")
	if name != filepath.Base(path) {
		name += "*"
	}
	f := Finding{Severity: Error, Subject: subject, Check: check, Text: r.text, Evidence: err.Error(), Remedy: r.host}
	if !strings.Contains(f.Evidence, path) {
		f.Evidence = path + ": " + f.Evidence
	}
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
	devs, _ := x.Facts.Devices()
	missing, given := map[string]error{}, 0
	for _, d := range devs {
		if d.Uverbs == "" {
			continue
		}
		path := filepath.Join(x.Dev, "infiniband", d.Uverbs)
		err := x.Access(path)
		if err == nil {
			given++
		} else if c := x.fileCause(path, err); c == provider.FileMissing || c == provider.FileGroup {
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
