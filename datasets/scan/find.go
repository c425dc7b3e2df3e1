package scan

// Find returns the value of a member of the object b without checking what comes
// behind it. It reports false when b is no object up to there, or has no such member.
// Keys with escapes are compared decoded.
func Find(b []byte, key string) ([]byte, bool) {
	i := Space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return nil, false
	}
	i = Space(b, i+1)
	for i < len(b) && b[i] == '"' {
		end, escaped, err := String(b, i)
		if err != nil {
			return nil, false
		}
		same := string(b[i+1:end-1]) == key
		if escaped {
			name, err := Unquote(b[i:end])
			same = err == nil && name == key
		}
		at := Space(b, end)
		if at >= len(b) || b[at] != ':' {
			return nil, false
		}
		at = Space(b, at+1)
		stop, err := value(b, at, 1)
		if err != nil {
			return nil, false
		}
		if same {
			return b[at:stop:stop], true
		}
		var more bool
		i, more, err = next(b, stop, '}')
		if err != nil || !more {
			return nil, false
		}
	}
	return nil, false
}
