package life

// Ref is an object of another package: its lifetime, its name, and the address of its C object.
type Ref struct {
	Object *Object
	Kind   string // "qp"
	Name   string // "mlx5_0/66"
	Handle uintptr
}
