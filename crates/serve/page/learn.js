export const title = "Learn"; export function open() { return {}; }
