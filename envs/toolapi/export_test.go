package toolapi

// Amounts is what a text tells.
var Amounts = amounts
