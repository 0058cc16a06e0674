package sysfs

// Entry is an entry of a directory.
type Entry struct {
	Name  string
	Inode uint64 // 0 on other systems than Linux. Since Linux 4.14 no entry of sysfs has the inode of an earlier one
}

// namesOf returns the names in a list.
func namesOf(list []Entry, err error) ([]string, error) {
	names := make([]string, 0, len(list))
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names, err
}
