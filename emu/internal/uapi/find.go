//go:build linux

package uapi

// FindMethod returns a method by its numbers, nil if there is none.
func FindMethod(object, id uint16) *Method {
	for i := range Methods {
		if m := &Methods[i]; m.Object == object && m.ID == id {
			return m
		}
	}
	return nil
}

// FindCmd returns a command by its number, nil if there is none.
func FindCmd(number uint32) *Cmd {
	for i := range Cmds {
		if Cmds[i].Number == number {
			return &Cmds[i]
		}
	}
	return nil
}
