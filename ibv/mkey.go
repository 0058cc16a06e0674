package ibv

// MkeyChange is what OpMkey does to an indirect key.
type MkeyChange struct{}
